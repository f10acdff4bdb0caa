use super::prelude::*;
use crate::migrate;

impl<P, C> SubsetRepository<P, C> {
    /// Migrates two collections without subsets, or with subsets that were maintained by hand: creates the indexes,
    /// rebuilds all subsets, and counts the children without a parent.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// for planned in &products.migrate_existing().plan().await?.commands {
    ///     println!("{}: {}", planned.purpose, planned.command);
    /// }
    /// let migrated = products.migrate_existing().on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
    /// println!("{} parents, {} children without a parent", migrated.parents, migrated.orphans);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Safe for concurrent writers of this crate. It can be interrupted and called again: it does not write parents
    /// whose subset is correct. Stop the programs that maintain subsets by hand first, because they do not increment
    /// the version.
    ///
    /// A subset that was maintained by hand may embed children that are not in their collection. These are leftovers,
    /// or were never [migrated](Self::migrate_from_embedded). Such parents stay unchanged and cause an error at the
    /// end, unless you [discard](MigrateExisting::discard_embedded) these children.
    ///
    /// # Cost
    /// That of [`ensure_indexes`](Self::ensure_indexes), of a [`rebuild_all`](Self::rebuild_all) that checks again, in
    /// chunks of 10,000 parents with one round trip each, and of [`verify`](Self::verify).
    ///
    /// # Cancel safety
    /// It stops between two steps, and the server may still execute the last command. Each parent is either rebuilt or
    /// unchanged. Call it again: it resumes.
    ///
    /// # Errors
    /// Those of [`ensure_indexes`](Self::ensure_indexes), with nothing changed, and of
    /// [`rebuild_all`](Self::rebuild_all).
    pub fn migrate_existing(&self) -> MigrateExisting<'_> {
        MigrateExisting {
            shared: self.shared(),
            discard_embedded: false,
            on_progress: None,
        }
    }
}

action! {
    /// Migrates two existing collections; returned by [`SubsetRepository::migrate_existing`].
    pub struct MigrateExisting<'a> {
        shared: &'a Shared,
        discard_embedded: bool,
    }
    with on_progress;
    "migrate_existing" => MigratedExisting
}

impl<'a> MigrateExisting<'a> {
    /// Discards embedded children that are not in their collection and that no repository has embedded. They are
    /// deleted: use it if they are leftovers of subsets that were maintained by hand.
    pub fn discard_embedded(mut self) -> Self {
        self.discard_embedded = true;
        self
    }

    /// Returns what it would do, and every command that it would send. Writes nothing.
    ///
    /// # Cost
    /// Three round trips, and one for each 1000 parents, whose ids this process holds in memory.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of [`ensure_indexes`](SubsetRepository::ensure_indexes), except for children that violate an index.
    pub fn plan(self) -> ActionFuture<'a, MigrationPlan> {
        run(self.shared.operation("migrate_existing"), move |_| async move {
            let mut steps = Steps::plan();
            let migrated =
                migrate::existing(self.shared, self.discard_embedded, &mut steps, Reporter::default()).await?;
            Ok(MigrationPlan {
                parents: migrated.parents,
                children: 0,
                skipped: InvalidParents::default(),
                commands: steps.into_commands(),
            })
        })
    }

    async fn execute(self) -> Result<MigratedExisting> {
        let reporter = Reporter::new(self.on_progress);
        migrate::existing(self.shared, self.discard_embedded, &mut Steps::run(), reporter).await
    }
}
