//! The code of the book. Each module is a chapter, whose Rust code `cargo test` compiles as documentation tests.

#[doc = include_str!("src/cookbook/service.md")]
#[cfg(doctest)]
mod service {}

#[doc = include_str!("src/cookbook/retries.md")]
#[cfg(doctest)]
mod retries {}

#[doc = include_str!("src/cookbook/several-patterns.md")]
#[cfg(doctest)]
mod several_patterns {}

#[doc = include_str!("src/cookbook/one-document.md")]
#[cfg(doctest)]
mod one_document {}

#[doc = include_str!("src/cookbook/background.md")]
#[cfg(doctest)]
mod background {}

#[doc = include_str!("src/cookbook/lists.md")]
#[cfg(doctest)]
mod lists {}

#[doc = include_str!("src/cookbook/json.md")]
#[cfg(doctest)]
mod json {}

#[doc = include_str!("src/cookbook/tests.md")]
#[cfg(doctest)]
mod tests {}

#[doc = include_str!("src/cookbook/tenants.md")]
#[cfg(doctest)]
mod tenants {}

#[doc = include_str!("src/cookbook/observability.md")]
#[cfg(doctest)]
mod observability {}

#[doc = include_str!("src/cookbook/migrations-once.md")]
#[cfg(doctest)]
mod migrations_once {}

#[doc = include_str!("src/cookbook/schema-evolution.md")]
#[cfg(doctest)]
mod schema_evolution {}

#[doc = include_str!("src/cookbook/bulk-loads.md")]
#[cfg(doctest)]
mod bulk_loads {}

#[doc = include_str!("src/operations/migrations.md")]
#[cfg(doctest)]
mod migrations {}

#[doc = include_str!("src/operations/leaving.md")]
#[cfg(doctest)]
mod leaving {}

#[doc = include_str!("src/reference/errors.md")]
#[cfg(doctest)]
mod errors {}

#[doc = include_str!("src/patterns/archive.md")]
#[cfg(doctest)]
mod archive {}

#[doc = include_str!("src/patterns/counters.md")]
#[cfg(doctest)]
mod counters {}

#[doc = include_str!("src/patterns/attributes.md")]
#[cfg(doctest)]
mod attributes {}

#[doc = include_str!("src/patterns/bucket.md")]
#[cfg(doctest)]
mod bucket {}

#[doc = include_str!("src/patterns/outlier.md")]
#[cfg(doctest)]
mod outlier {}

#[doc = include_str!("src/patterns/subset.md")]
#[cfg(doctest)]
mod subset {}

#[doc = include_str!("src/patterns/embedded.md")]
#[cfg(doctest)]
mod embedded {}

#[doc = include_str!("src/patterns/history.md")]
#[cfg(doctest)]
mod history {}

#[doc = include_str!("src/patterns/intervals.md")]
#[cfg(doctest)]
mod intervals {}

#[doc = include_str!("src/patterns/reference.md")]
#[cfg(doctest)]
mod reference {}

#[doc = include_str!("src/patterns/schema.md")]
#[cfg(doctest)]
mod schema {}

#[doc = include_str!("src/patterns/trash.md")]
#[cfg(doctest)]
mod trash {}

#[doc = include_str!("src/patterns/archive-files.md")]
#[cfg(doctest)]
mod archive_files {}

#[doc = include_str!("src/patterns/bucket-options.md")]
#[cfg(doctest)]
mod bucket_options {}

#[doc = include_str!("src/patterns/bucket-migration.md")]
#[cfg(doctest)]
mod bucket_migration {}

#[doc = include_str!("src/how-repositories-work.md")]
#[cfg(doctest)]
mod how_repositories_work {}

#[doc = include_str!("src/reference/manual.md")]
#[cfg(doctest)]
mod manual {}
