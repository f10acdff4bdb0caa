//! Migrations from ids of sources to references with copies, and back.

use super::Work;
use crate::args::ReferenceMigration;
use crate::failure::Outcome;
use crate::migrate::{Migrate, Mode};
use crate::reference_fields::{in_other_fields, in_other_forms};

impl Work<'_> {
    pub(super) async fn migrate(&self, options: &ReferenceMigration, mode: Mode) -> Outcome {
        let migrate = Migrate {
            selection: Some(&options.selection),
            ..Migrate::new(self.context, &self.documents, mode, "documents")
        };
        if !options.back {
            let mut migration = self.documents.migrate_from_references().chunk(options.chunk);
            for (reference, field) in in_other_fields("--from-field", options.from_field.as_ref(), &self.references)? {
                migration = migration.from_field(reference, field);
            }
            for (reference, form) in in_other_forms("--from-form", options.from_form.as_ref(), &self.references)? {
                migration = migration.from_form(reference, form);
            }
            return migrate.execute(migration).await;
        }
        let mut migration = self.documents.migrate_to_references().chunk(options.chunk);
        for (reference, field) in in_other_fields("--to-field", options.to_field.as_ref(), &self.references)? {
            migration = migration.to_field(reference, field);
        }
        if options.drop_deleted {
            migration = migration.drop_deleted();
        }
        if options.drop_snapshots {
            migration = migration.drop_snapshots();
        }
        migrate.execute(migration).await
    }
}
