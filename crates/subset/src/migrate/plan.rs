//! What a move would send, to be looked at before.

use std::fmt;

use mongo_patterns_core::index::IndexPlan;
use mongodb::bson::{Bson, Document};

/// What a move writes, as the commands of a shell: its text. Nothing was sent for it.
///
/// The ids of a chunk's parents are not known before the move; `CHUNK` stands for them, and `RUN` for what tells this
/// call from others.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let plan = products.move_from_embedded().plan();
/// println!("{plan}"); // the commands of a shell
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MovePlan {
    /// The indexes that are created where they are missing.
    pub indexes: IndexPlan,
    /// The aggregations that write, in their order, each for every chunk of parents.
    pub chunk: Vec<Vec<Document>>,
    /// The name of an index that is dropped.
    pub dropped_index: Option<String>,
    /// The collections of the parents and of the children.
    pub(crate) collections: (String, String),
}

impl fmt::Display for MovePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parents, children) = &self.collections;
        write!(f, "{}", self.indexes)?;
        if let Some(index) = &self.dropped_index {
            write!(f, "\ndb.getCollection({children:?}).dropIndex({index:?})")?;
        }
        for stages in &self.chunk {
            let stages = stages.iter().cloned().map(Bson::Document).collect();
            write!(f, "\ndb.getCollection({parents:?}).aggregate({})", Bson::Array(stages))?;
        }
        Ok(())
    }
}
