//! The profile: a TOML file that names database, collections, fields and sizes, so that commands are short.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::failure::{Exit, Failure};
use crate::settings::{BucketSettings, EmbeddedSettings, OutlierSettings, SubsetSettings};

/// Where a profile is looked for when no option names one.
pub(crate) const FILE: &str = "mongo-patterns.toml";

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) database: Option<String>,
    pub(crate) bucket: Option<BucketSettings>,
    pub(crate) outlier: Option<OutlierSettings>,
    pub(crate) subset: Option<SubsetSettings>,
    pub(crate) embedded: Option<EmbeddedSettings>,
}

impl Profile {
    /// The one at this path; or the one of the working directory, if there is one.
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

/// Options over the settings of a profile.
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
            format!("the profile and the options do not go together: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_over_the_profile() {
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
}
