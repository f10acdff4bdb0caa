//! The profile: a TOML file with the database, collections, fields and sizes, so that commands are short.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::document_settings::{ArchiveSettings, SchemaSettings, TrashSettings};
use crate::failure::Failure;
use crate::settings::{
    BucketSettings, EmbeddedSettings, HistorySettings, OutlierSettings, ReferenceSettings, SubsetSettings,
};

/// The profile that is read if no option names one.
pub(crate) const FILE: &str = "mongo-patterns.toml";

/// The settings of a collection: a table of the profile, such as `[[bucket]]`.
pub(crate) trait Settings: Clone + Serialize + DeserializeOwned {
    const PATTERN: &'static str;
    /// The option that names an array or reference field, if a collection can have several.
    const FIELD: Option<&'static str>;

    /// The collection, and this field.
    fn id(&self) -> [Option<&String>; 2];

    fn tables(profile: &Profile) -> &[Self];

    /// Returns the collection with the field, such as `sales.buyers`.
    fn name(&self) -> String {
        let id = self.id().into_iter().flatten().map(String::as_str);
        id.collect::<Vec<_>>().join(".")
    }
}

macro_rules! profile {
    ($($pattern:ident: $settings:ident $(by $field:ident)?),+ $(,)?) => {
        #[derive(Clone, Debug, Default, Deserialize, Serialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct Profile {
            pub(crate) database: Option<String>,
            $(#[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub(crate) $pattern: Vec<$settings>,)+
        }

        /// The patterns with tables.
        pub(crate) const PATTERNS: &[&str] = &[$(stringify!($pattern)),+];

        $(impl Settings for $settings {
            const PATTERN: &'static str = stringify!($pattern);
            const FIELD: Option<&'static str> = {
                let field: &[&'static str] = &[$(stringify!($field))?];
                field.first().copied()
            };

            fn id(&self) -> [Option<&String>; 2] {
                let field: &[Option<&String>] = &[$(self.$field.as_ref())?];
                [self.collection.as_ref(), field.first().copied().flatten()]
            }

            fn tables(profile: &Profile) -> &[Self] {
                &profile.$pattern
            }
        })+

        impl Profile {
            /// Returns the pattern and the name of each table, such as `bucket trades`.
            pub(crate) fn names(&self) -> Vec<String> {
                let names: Vec<Vec<String>> = vec![$(names(&self.$pattern)),+];
                names.concat()
            }

            /// Removes the tables that another profile has, and returns their names.
            pub(crate) fn remove(&mut self, other: &Self) -> Vec<String> {
                let mut removed = self.clone();
                $(
                    let is_known = |table: &$settings| other.$pattern.iter().any(|known| known.id() == table.id());
                    self.$pattern.retain(|table| !is_known(table));
                    removed.$pattern.retain(is_known);
                )+
                removed.names()
            }
        }

        /// Checks that each table survives a merge with empty options.
        #[cfg(any(test, fuzzing))]
        fn check_tables(profile: &Profile) {
            $(for table in &profile.$pattern {
                let merged = overlay(table, &$settings::default()).expect("a table merges with empty options");
                assert_eq!(written(&merged), written(table));
            })+
        }
    };
}

profile! {
    bucket: BucketSettings,
    outlier: OutlierSettings by array,
    subset: SubsetSettings by subset,
    embedded: EmbeddedSettings by children,
    history: HistorySettings,
    reference: ReferenceSettings by reference,
    archive: ArchiveSettings,
    schema: SchemaSettings,
    trash: TrashSettings,
}

fn names<S: Settings>(tables: &[S]) -> Vec<String> {
    tables
        .iter()
        .map(|table| format!("{} {}", S::PATTERN, table.name()))
        .collect()
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

    /// Returns the settings of options, completed by the table of their collection. A table without a collection fits every
    /// collection, and options without a collection take the only table.
    pub(crate) fn settings<S: Settings>(&self, options: &S) -> Result<S, Failure> {
        let fits = |table: &&S| {
            let mut both = options.id().into_iter().zip(table.id());
            both.all(|(option, own)| option.is_none() || own.is_none() || option == own)
        };
        let tables: Vec<&S> = S::tables(self).iter().filter(fits).collect();
        match tables.as_slice() {
            [] => Ok(options.clone()),
            [table] => overlay(table, options),
            tables => {
                let names: Vec<String> = tables.iter().map(|table| table.name()).collect();
                let and = S::FIELD.map(|field| format!(" and --{field}")).unwrap_or_default();
                let (pattern, names) = (S::PATTERN, names.join(", "));
                Err(Failure::usage(format!(
                    "the profile has several tables [[{pattern}]] ({names}): choose one by --collection{and}"
                )))
            }
        }
    }
}

/// Overrides settings with others.
pub(crate) fn overlay<T: Serialize + DeserializeOwned>(settings: &T, over: &T) -> Result<T, Failure> {
    let merged = || -> Result<T, String> {
        let table = |settings| toml::Table::try_from(settings).map_err(|error| error.to_string());
        let mut merged = table(settings)?;
        merged.extend(table(over)?);
        merged.try_into().map_err(|error: toml::de::Error| error.to_string())
    };
    merged().map_err(|error| Failure::usage(format!("the profile and the options cannot be combined: {error}")))
}

#[cfg(any(test, fuzzing))]
fn written<T: Serialize>(value: &T) -> String {
    toml::to_string(value).expect("a parsed profile can be written")
}

/// Checks any bytes as a profile: they are refused, or they survive a round trip and empty options change nothing. Used
/// by the test and the fuzz target.
#[cfg(any(test, fuzzing))]
pub(crate) fn check(input: &[u8]) {
    let Ok(profile) = toml::from_str::<Profile>(&String::from_utf8_lossy(input)) else {
        return;
    };
    let text = written(&profile);
    let again: Profile = toml::from_str(&text).expect("a written profile can be parsed");
    assert_eq!(written(&again), text);
    check_tables(&profile);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str) -> Profile {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn options_override_the_profile() {
        let profile = profile("[[bucket]]\nkey = \"a\"\npage_size = 20\nkeep_ids = true");
        let options = BucketSettings {
            key: Some("b".into()),
            ..BucketSettings::default()
        };
        let merged = profile.settings(&options).unwrap();
        assert_eq!(merged.key.as_deref(), Some("b"));
        assert_eq!((merged.page_size, merged.keep_ids), (Some(20), Some(true)));
    }

    #[test]
    fn a_collection_and_its_field_select_a_table() {
        let profile = profile(
            r#"
            outlier = [
                { collection = "sales", array = "buyers", cap = 1 },
                { collection = "sales", array = "views", cap = 2 },
                { collection = "drug", array = "reviews", cap = 3 },
            ]
            "#,
        );
        let cap = |collection: Option<&str>, array: Option<&str>| {
            let [collection, array] = [collection, array].map(|name| name.map(str::to_owned));
            let options = OutlierSettings {
                collection,
                array,
                ..OutlierSettings::default()
            };
            profile
                .settings(&options)
                .map(|settings| settings.cap)
                .map_err(|failure| failure.text)
        };
        assert_eq!(cap(Some("sales"), Some("views")), Ok(Some(2)));
        assert_eq!(cap(Some("drug"), None), Ok(Some(3)));
        assert_eq!(cap(None, Some("buyers")), Ok(Some(1)));
        assert_eq!(cap(Some("other"), None), Ok(None));
        let several = cap(Some("sales"), None).unwrap_err();
        assert!(
            several.contains("(sales.buyers, sales.views)") && several.contains("--array"),
            "{several}"
        );
    }

    #[test]
    fn an_unknown_name_is_refused() {
        let error = toml::from_str::<Profile>("[[bucket]]\npagesize = 20").unwrap_err();
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
