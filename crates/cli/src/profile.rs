//! The profile: a TOML file with the database, collections, fields and sizes, so that commands are short.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::failure::{Exit, Failure};
use crate::settings::{
    BucketSettings, EmbeddedSettings, HistorySettings, OutlierSettings, ReferenceSettings, SubsetSettings,
};

/// The profile that is read if no option names one.
pub(crate) const FILE: &str = "mongo-patterns.toml";

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) database: Option<String>,
    pub(crate) bucket: Option<BucketSettings>,
    pub(crate) outlier: Option<OutlierSettings>,
    pub(crate) subset: Option<SubsetSettings>,
    pub(crate) embedded: Option<EmbeddedSettings>,
    pub(crate) history: Option<HistorySettings>,
    pub(crate) reference: Option<ReferenceSettings>,
}

impl Profile {
    /// Reads the profile at this path, or the one in the working directory if it exists.
    pub(crate) fn read(path: Option<&Path>) -> Result<Self, Failure> {
        let file = path.map_or_else(|| PathBuf::from(FILE), Path::to_owned);
        if path.is_none() && !file.exists() {
            return Ok(Self::default());
        }
        let name = file.display();
        let text = fs::read_to_string(&file).map_err(|error| Failure::usage(format!("--profile {name}: {error}")))?;
        toml::from_str(&text).map_err(|error| Failure::usage(format!("--profile {name}: {error}")))
    }
}

impl Profile {
    /// Removes the patterns that another profile has, and returns their names.
    pub(crate) fn remove(&mut self, other: &Self) -> Vec<&'static str> {
        fn take<T>(own: &mut Option<T>, other: Option<&T>) -> bool {
            other.is_some() && own.take().is_some()
        }
        let removed = [
            ("bucket", take(&mut self.bucket, other.bucket.as_ref())),
            ("outlier", take(&mut self.outlier, other.outlier.as_ref())),
            ("subset", take(&mut self.subset, other.subset.as_ref())),
            ("embedded", take(&mut self.embedded, other.embedded.as_ref())),
            ("history", take(&mut self.history, other.history.as_ref())),
            ("reference", take(&mut self.reference, other.reference.as_ref())),
        ];
        removed
            .into_iter()
            .filter_map(|(name, is_removed)| is_removed.then_some(name))
            .collect()
    }
}

/// Overrides the settings of a profile with options.
pub(crate) fn overlay<T>(profile: Option<&T>, options: &T) -> Result<T, Failure>
where
    T: Clone + Serialize + DeserializeOwned,
{
    let Some(profile) = profile else {
        return Ok(options.clone());
    };
    let merged = || -> Result<T, String> {
        let mut merged = Table::try_from(profile).map_err(|error| error.to_string())?;
        merged.extend(Table::try_from(options).map_err(|error| error.to_string())?);
        merged.try_into().map_err(|error: toml::de::Error| error.to_string())
    };
    merged().map_err(|error| {
        Failure::new(
            Exit::Usage,
            format!("the profile and the options cannot be combined: {error}"),
        )
    })
}

/// Checks any bytes as a profile: they are refused, or they survive a round trip and empty options change nothing. Used
/// by the test and the fuzz target.
#[cfg(any(test, fuzzing))]
pub(crate) fn check(input: &[u8]) {
    fn unchanged<T: Clone + Default + Serialize + DeserializeOwned>(profile: Option<&T>) {
        let Some(settings) = profile else { return };
        let merged = overlay(profile, &T::default()).expect("a profile merges with empty options");
        assert_eq!(written(&merged), written(settings));
    }
    fn written<T: Serialize>(value: &T) -> String {
        toml::to_string(value).expect("a parsed profile can be written")
    }
    let Ok(profile) = toml::from_str::<Profile>(&String::from_utf8_lossy(input)) else {
        return;
    };
    let text = written(&profile);
    let again: Profile = toml::from_str(&text).expect("a written profile can be parsed");
    assert_eq!(written(&again), text);
    unchanged(profile.bucket.as_ref());
    unchanged(profile.outlier.as_ref());
    unchanged(profile.subset.as_ref());
    unchanged(profile.embedded.as_ref());
    unchanged(profile.history.as_ref());
    unchanged(profile.reference.as_ref());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_override_the_profile() {
        let profile: Profile = toml::from_str("[bucket]\nkey = \"a\"\npage_size = 20\nkeep_ids = true").unwrap();
        let options = BucketSettings {
            key: Some("b".into()),
            ..BucketSettings::default()
        };
        let merged = overlay(profile.bucket.as_ref(), &options).unwrap();
        assert_eq!(merged.key.as_deref(), Some("b"));
        assert_eq!((merged.page_size, merged.keep_ids), (Some(20), Some(true)));
    }

    #[test]
    fn an_unknown_name_is_refused() {
        let error = toml::from_str::<Profile>("[bucket]\npagesize = 20").unwrap_err();
        assert!(error.to_string().contains("pagesize"), "{error}");
    }

    #[test]
    fn any_file_is_parsed_or_refused() {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/profile");
        for seed in fs::read_dir(seeds).unwrap() {
            let text = fs::read_to_string(seed.unwrap().path()).unwrap();
            assert!(
                toml::from_str::<Profile>(&text).is_ok(),
                "a seed must be a valid profile"
            );
            let seed = text.into_bytes();
            check(&seed);
            for _ in 0..500 {
                let mut changed = seed.clone();
                for _ in 0..fastrand::usize(1..4) {
                    changed[fastrand::usize(..seed.len())] = fastrand::u8(..);
                }
                changed.truncate(fastrand::usize(..=seed.len()));
                check(&changed);
            }
        }
    }
}
