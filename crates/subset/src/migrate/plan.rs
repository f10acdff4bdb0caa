//! What a move would do: its checks are run, and its commands are listed, not sent.

use mongo_patterns_core::chunks::Walk;
use mongo_patterns_core::plan::aggregation;
use mongo_patterns_core::{PlannedCommand, Result};
use mongodb::bson::{Bson, Document, doc};

use super::CHUNK;
use crate::query::{self, Rebuilt};
use crate::repository::Shared;

/// What a move would do, and every command that it would send; from
/// [`MigrateFromEmbedded::plan`](crate::action::MigrateFromEmbedded::plan), [`MigrateExisting::plan`](crate::action::MigrateExisting::plan) and
/// [`MigrateLayoutFrom::plan`](crate::action::MigrateLayoutFrom::plan).
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # async fn f(products: SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
/// let plan = products.migrate_existing().plan().await?;
/// for planned in &plan.commands {
///     println!("{}: {}", planned.purpose, planned.command);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct MigrationPlan {
    /// How many parents it would look at.
    pub parents: u64,
    /// How many embedded children it would move.
    pub children: u64,
    /// The commands, in order, as they go to the database of both collections. Two things are not known before: a move
    /// ends with a look for what is still wrong, which takes further commands where others wrote meanwhile, or where
    /// children have no parent; and a cursor is read to its end by `getMore`.
    pub commands: Vec<PlannedCommand>,
}

impl MigrationPlan {
    pub(crate) fn read(&mut self, purpose: &'static str, command: Document) {
        self.commands.push(PlannedCommand::read(purpose, command));
    }

    pub(crate) fn write(&mut self, purpose: &'static str, command: Document) {
        self.commands.push(PlannedCommand::write(purpose, command));
    }

    /// The creation of the indexes.
    pub(crate) async fn indexes(&mut self, shared: &Shared) -> Result<()> {
        let Shared {
            parents,
            children,
            settings,
            ..
        } = shared;
        let plan = settings.index_plan(children.name());
        self.commands
            .append(&mut plan.ensure_commands_with(children, parents).await?);
        Ok(())
    }

    /// What [`rebuild_in_chunks`](crate::repair::rebuild::rebuild_in_chunks) sends.
    pub(crate) async fn rebuild_in_chunks(&mut self, shared: &Shared, every: bool) -> Result<()> {
        let parents = &shared.parents;
        let walk = Walk::by_number(Document::new(), CHUNK);
        self.read("count the parents", doc! { "count": parents.name() });
        self.read("go through the parents", walk.find_command(parents.name()));
        let mut chunks = walk.begin(parents).await?;
        while let Some(chunk) = chunks.next().await? {
            let which = match every {
                true => Rebuilt::AllOf(&chunk.ids),
                false => Rebuilt::WrongOf(&chunk.ids),
            };
            self.write("write the subsets of a chunk", rebuild(shared, which));
            self.parents += chunk.ids.len() as u64;
        }
        self.look_again(shared);
        Ok(())
    }

    /// The look for what is still wrong.
    pub(crate) fn look_again(&mut self, shared: &Shared) {
        let Shared {
            parents,
            children,
            settings,
            ..
        } = shared;
        let list = mongo_patterns_core::plan::list_indexes(children.name());
        self.read("check the indexes", list);
        let stale = query::stale(settings, children.name(), None);
        self.read("look for subsets that are wrong", plain(parents.name(), stale));
    }

    /// The look for children without a parent.
    pub(crate) fn look_for_orphans(&mut self, shared: &Shared) {
        let orphans = query::orphans(&shared.settings, shared.parents.name(), None);
        let look = plain(shared.children.name(), orphans);
        self.read("look for children without a parent", look);
    }
}

/// The command that [`rebuild`](crate::repair::rebuild::rebuild) sends.
pub(crate) fn rebuild(shared: &Shared, which: Rebuilt<'_>) -> Document {
    let Shared {
        parents,
        children,
        settings,
        ..
    } = shared;
    let stages = query::rebuild_all(settings, parents.name(), children.name(), which);
    plain(parents.name(), stages)
}

/// By the collection's own collation.
fn plain(collection: &str, stages: Vec<Document>) -> Document {
    let mut command = aggregation(collection, stages);
    command.remove("collation");
    command
}

/// A write concern, where there is one.
pub(crate) fn with_concern(shared: &Shared, mut command: Document) -> Document {
    let concern = shared.children.write_concern();
    let concern = concern.and_then(|concern| mongodb::bson::serialize_to_bson(concern).ok());
    if let Some(concern) = concern.filter(|concern| *concern != Bson::Document(Document::new())) {
        command.insert("writeConcern", concern);
    }
    command
}
