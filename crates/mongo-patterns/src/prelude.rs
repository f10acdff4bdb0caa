//! The names that most code needs: `use mongo_patterns::prelude::*;`
//!
//! The repositories, the tokens of lists, and the error. Settings, results and actions are in the modules of the patterns, because a
//! service is likely to have a `Reference` or a `Subset` of its own.

#[cfg(feature = "archive")]
pub use crate::archive::{Archive, ArchiveToken, Trash, TrashToken};
#[cfg(feature = "archive-files")]
pub use crate::archive_files::FileArchive;
#[cfg(feature = "bucket")]
pub use crate::bucket::{BucketRepository, ItemToken, PageToken};
#[cfg(feature = "counters")]
pub use crate::counters::Counters;
#[cfg(feature = "embedded")]
pub use crate::embedded::EmbeddedRepository;
#[cfg(feature = "history")]
pub use crate::history::{HistoryRepository, RevisionToken};
#[cfg(feature = "intervals")]
pub use crate::intervals::{IntervalRepository, IntervalToken};
#[cfg(feature = "outlier")]
pub use crate::outlier::OutlierRepository;
pub use crate::pages::{DocumentToken, Pages};
#[cfg(feature = "reference")]
pub use crate::reference::ReferenceRepository;
#[cfg(feature = "schema")]
pub use crate::schema::{Migrations, SchemaRepository};
#[cfg(feature = "subset")]
pub use crate::subset::{ChildToken, SubsetRepository};
pub use crate::{Error, ErrorKind, Repository};
