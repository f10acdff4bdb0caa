//! The migration from ids of sources to references with copies.

use super::Work;
use crate::args::ReferenceMigration;
use crate::failure::Outcome;
use crate::migrate::{Migrate, Mode};
use crate::reference_fields::in_other_fields;

impl Work<'_> {
    pub(super) async fn migrate(&self, options: &ReferenceMigration, mode: Mode) -> Outcome {
        let migrate = Migrate {
            selection: Some(&options.selection),
            ..Migrate::new(self.context, &self.documents, mode, "documents")
        };
        let mut migration = self.documents.migrate_from_references().chunk(options.chunk);
        for (reference, field) in in_other_fields(options.from_field.as_ref(), &self.references)? {
            migration = migration.from_field(reference, field);
        }
        migrate.execute(migration).await
    }
}
