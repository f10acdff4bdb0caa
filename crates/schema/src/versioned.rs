//! Documents of several versions in the repositories of other patterns.

use std::borrow::Cow;
use std::marker::PhantomData;

#[allow(unused_imports)] // the links of the documentation use it
use mongo_patterns_core::ErrorKind;
use mongo_patterns_core::versions::{convert, converting, encode};
use mongo_patterns_core::{FieldName, Result, RetryPolicy};
use mongodb::bson::{RawDocument, RawDocumentBuf};
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::form::{checked, decode, known_version_of};
use crate::settings::Settings;
use crate::steps::{self, Work};

/// A document of the newest version, decoded from any version by the steps of its [type](HasVersions).
///
/// Give it to the repository of another pattern as its type, where the documents have several versions: the documents and
/// revisions of a history, the entries of a trash, the items of a bucket, the rows of pages.
///
/// ```
/// use std::sync::LazyLock;
///
/// use mongo_patterns::history::HistoryRepository;
/// use mongo_patterns::schema::{HasVersions, Versioned, Versions};
/// # use mongo_patterns::mongodb::bson::{self, doc};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct PatientV1 {
///     name: String,
/// }
///
/// #[derive(Serialize, Deserialize)]
/// struct Patient {
///     names: Vec<String>,
/// }
///
/// static VERSIONS: LazyLock<Versions<Patient>> = LazyLock::new(|| {
///     let versions = Versions::builder("schemaVersion").step(1, |old: PatientV1| Ok(Patient { names: vec![old.name] }));
///     versions.build().expect("the steps have no gap")
/// });
///
/// impl HasVersions for Patient {
///     fn versions() -> &'static Versions<Self> {
///         &VERSIONS
///     }
/// }
///
/// type Patients = HistoryRepository<Versioned<Patient>>;
///
/// let stored = doc! { "_id": 1, "name": "Ann" };
/// let patient: Versioned<Patient> = bson::deserialize_from_document(stored)?;
/// assert_eq!(patient.0.names, ["Ann"]);
/// let written = bson::serialize_to_document(&patient)?;
/// assert_eq!(written, doc! { "schemaVersion": 2, "names": ["Ann"] });
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// It is written with the newest version. So a call that replaces a document stores the newest version. An update by
/// operators leaves the version as it is: its operators must suit all stored versions.
///
/// # Errors
/// A document that [`SchemaRepository::get`](crate::SchemaRepository::get) refuses cannot be decoded: the call ends with
/// [`Decode`](ErrorKind::Decode), whose cause says which version it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versioned<D>(pub D);

/// A type of the newest version, with the steps that convert documents of older versions.
pub trait HasVersions: Serialize + DeserializeOwned + 'static {
    /// Returns the steps, such as those in a static `LazyLock`.
    fn versions() -> &'static Versions<Self>;
}

/// The version field of a type, and the steps that convert documents of older versions.
pub struct Versions<D> {
    pub(crate) settings: Settings,
    types: PhantomData<fn() -> D>,
}

mongo_patterns_core::redacted_debug!(Versions<D>, |versions| "newest" = versions.settings.steps.newest());

/// Builds [`Versions`]; returned by [`Versions::builder`].
#[must_use = "a builder does nothing until build() is called"]
pub struct VersionsBuilder<D> {
    version: String,
    steps: Vec<(u32, Work)>,
    newest: Option<u32>,
    types: PhantomData<fn() -> D>,
}

mongo_patterns_core::redacted_debug!(VersionsBuilder<D>, |builder| "version" = builder.version);

impl<D> Versions<D> {
    /// Starts to describe the versions of a type, by the field with the version of a document. A document without the field
    /// has version 1.
    pub fn builder(version_field: impl Into<String>) -> VersionsBuilder<D> {
        VersionsBuilder {
            version: version_field.into(),
            steps: Vec::new(),
            newest: None,
            types: PhantomData,
        }
    }
}

impl<D> VersionsBuilder<D> {
    mongo_patterns_core::setters! {
        /// Sets the version of the type `D`. By default it is the version after the last step, or 1 without steps.
        newest(version: u32) => newest = Some(version);
    }

    /// Adds the step that converts documents of the version `from` to the next version, as
    /// [`SchemaRepositoryBuilder::step`](crate::SchemaRepositoryBuilder::step) does.
    pub fn step<Old, New>(mut self, from: u32, convert: impl Fn(Old) -> Result<New> + Send + Sync + 'static) -> Self
    where
        Old: Serialize + DeserializeOwned,
        New: Serialize,
    {
        self.steps.push((from, Work::Typed(converting(convert))));
        self
    }

    /// Checks the steps.
    ///
    /// # Errors
    /// - [`Configuration`](ErrorKind::Configuration), as
    ///   [`SchemaRepositoryBuilder::build`](crate::SchemaRepositoryBuilder::build).
    pub fn build(self) -> Result<Versions<D>> {
        let settings = Settings {
            version: FieldName::new(self.version)?,
            steps: steps::check(self.steps, self.newest)?,
            retry: RetryPolicy::default(),
            max_time: None,
        };
        Ok(Versions {
            settings,
            types: PhantomData,
        })
    }
}

impl<D: HasVersions> Versions<D> {
    fn decode(&self, stored: &RawDocument) -> Result<D> {
        let Settings {
            version: field, steps, ..
        } = &self.settings;
        let mut version = known_version_of(&self.settings, stored)?;
        let mut document = Cow::Borrowed(stored);
        while let Some(Work::Typed(step)) = steps.from(version) {
            document = Cow::Owned(convert(field, step, version, &document)?);
            version += 1;
        }
        decode(&document)
    }
}

impl<'de, D: HasVersions> Deserialize<'de> for Versioned<D> {
    fn deserialize<S: Deserializer<'de>>(deserializer: S) -> std::result::Result<Self, S::Error> {
        let stored = RawDocumentBuf::deserialize(deserializer)?;
        D::versions().decode(&stored).map(Self).map_err(S::Error::custom)
    }
}

impl<D: HasVersions> Serialize for Versioned<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let document = encode(&self.0).and_then(|document| checked(&D::versions().settings, &document));
        document.map_err(S::Error::custom)?.serialize(serializer)
    }
}
