//! The options that all migrations have, and their definition.

use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf};

use serde::Serialize;

use super::filter::record_filter;
use super::{SkipList, check_filter};
use crate::action::ActionFuture;
use crate::conn::Conn;
use crate::error::Result;
use crate::plan::Planned;
use crate::progress::OnProgress;

/// The options of a migration.
#[derive(Clone, Default)]
pub struct MigrateOptions {
    /// About how many units one command migrates. `None` for the default of the migration.
    pub chunk: Option<u64>,
    /// The most units per second.
    pub rate: Option<u64>,
    /// How many documents or keys are migrated concurrently, where they are migrated one by one.
    pub concurrency: Option<usize>,
    /// The filter of the documents to migrate; empty for all.
    pub filter: Document,
    /// The collection that lists the invalid documents, which are skipped then.
    pub skipped: Option<Collection<RawDocumentBuf>>,
}

crate::redacted_debug!(MigrateOptions);

impl MigrateOptions {
    /// Checks the collection of the skipped documents and the filter. One round trip each, if there is one.
    pub async fn check_selection(
        &self,
        conn: &mut Conn<'_>,
        source: &Collection<RawDocumentBuf>,
        target: &Collection<RawDocumentBuf>,
    ) -> Result<()> {
        if let Some(list) = self.skip_list(source, target) {
            list.check_settings()?;
            list.check(conn).await?;
        }
        check_filter(conn, source, &self.filter).await
    }

    /// Adds the selection of documents to the settings of a migration's record.
    pub fn record_selection(&self, settings: &mut Document) {
        record_filter(settings, &self.filter);
        if let Some(list) = &self.skipped {
            settings.insert("skipInvalid", list.name());
        }
    }

    /// Returns how many documents or keys are migrated concurrently.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.concurrency.unwrap_or(4).max(1)
    }

    /// Returns the list of the skipped documents, if they are skipped.
    #[must_use]
    pub fn skip_list<'l>(
        &'l self,
        source: &'l Collection<RawDocumentBuf>,
        target: &'l Collection<RawDocumentBuf>,
    ) -> Option<SkipList<'l>> {
        let list = self.skipped.as_ref()?;
        Some(SkipList { source, target, list })
    }
}

/// What the migrations of all patterns have in common, for the command line.
pub trait Migration<'a>:
    IntoFuture<Output = Result<Self::Migrated>, IntoFuture = ActionFuture<'a, Self::Migrated>>
{
    /// The result.
    type Migrated: Serialize;

    /// Returns the options, to set them.
    fn options(&mut self) -> &mut MigrateOptions;

    /// Sets the progress callback.
    fn report(&mut self, call: OnProgress<'a>);

    /// Returns the plan.
    fn planned(self) -> ActionFuture<'a, Planned<Self::Migrated>>;
}

/// Defines the action of a migration, with its `plan`. `in chunks` adds `chunk`, `rate` and `on_progress`. `one by one` has
/// `concurrency` in place of `chunk`. `of selected documents` adds `filter` and `skip_invalid`.
///
/// The action has a method `async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) ->
/// Result<Migrated>`, which a run and a plan share.
///
/// ```text
/// migration! {
///     /// Migrates embedded children; returned by [`SubsetRepository::migrate_from_embedded`].
///     pub struct MigrateFromEmbedded<'a> {
///         shared: &'a Shared,
///         allow_non_empty_target: bool,
///     }
///     "migrate_from_embedded" => Migrated;
///     in chunks of 100_000 "children";
///     of selected documents;
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! migration {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident<$life:lifetime $(, $param:ident)*> {
            $($(#[$field_attribute:meta])* $field:ident: $type:ty,)*
        }
        $($(#[$of_setter:meta])* $setter:ident($($argument:ident: $of:ty)?) => $($set:ident).+ = $value:expr;)*
        $operation:literal => $migrated:ty $(where $param_bound:ident: $bound:path)?;
        $(in chunks of $chunk:literal $unit:literal;)?
        $(one by one $one:literal, of $scanned:literal;)?
        $(of selected $documents:ident;)?
    ) => {
        $crate::action! {
            $(#[$attribute])*
            pub struct $name<$life $(, $param)*> {
                $($(#[$field_attribute])* $field: $type,)*
                options: $crate::migration::MigrateOptions,
                on_progress: ::std::option::Option<$crate::progress::OnProgress<$life>>,
            }
            $($(#[$of_setter])* $setter($($argument: $of)?) => $($set).+ = $value;)*
            $operation => $migrated $(where $param_bound: $bound)?
        }

        impl<$life $(, $param)*> $name<$life $(, $param)*> {
            #[allow(clippy::too_many_arguments)] // the fields of one action, which one method sets
            fn with_defaults($($field: $type),*) -> Self {
                Self::create($($field,)* ::std::default::Default::default(), ::std::option::Option::None)
            }
        }

        impl<$life $(, $param)*> $name<$life $(, $param)*>
        $(where $param_bound: $bound)?
        {
            /// Returns the result that the migration would have, and the commands that it would send. Runs its checks, and
            /// writes nothing. A number that only the writes show is 0.
            ///
            /// # Cost
            /// The checks, and the reads that find what to migrate. The commands are in memory.
            pub fn plan(self) -> $crate::action::ActionFuture<$life, $crate::Planned<$migrated>> {
                let call = self.shared.operation($operation);
                $crate::action::run(call, async move {
                    let mut conn = $crate::conn::Conn::plan();
                    let chunk = $crate::migration! { @default_chunk $($chunk)? };
                    let progress = $crate::migration::MigrationProgress::new(&self.options, chunk, None)?;
                    let migrated = self.migrate(&mut conn, progress).await?;
                    let warnings = conn.take_warnings();
                    Ok($crate::Planned::new(migrated, conn.into_commands()).with_warnings(warnings))
                })
            }

            async fn execute(mut self) -> $crate::Result<$migrated> {
                let chunk = $crate::migration! { @default_chunk $($chunk)? };
                let call = self.on_progress.take();
                let progress = $crate::migration::MigrationProgress::new(&self.options, chunk, call)?;
                self.migrate(&mut $crate::conn::Conn::new(), progress).await
            }
        }

        impl<$life $(, $param)*> $crate::migration::Migration<$life> for $name<$life $(, $param)*>
        $(where $param_bound: $bound)?
        {
            type Migrated = $migrated;

            fn options(&mut self) -> &mut $crate::migration::MigrateOptions {
                &mut self.options
            }

            fn report(&mut self, call: $crate::progress::OnProgress<$life>) {
                self.on_progress = ::std::option::Option::Some(call);
            }

            fn planned(self) -> $crate::action::ActionFuture<$life, $crate::Planned<$migrated>> {
                self.plan()
            }
        }

        $crate::migration! { @chunks [$($chunk $unit)?] $name<$life $(, $param)*> }
        $crate::migration! { @one_by_one [$($one $scanned)?] $name<$life $(, $param)*> }
        $crate::migration! { @selected [$($documents)?] $name<$life $(, $param)*> }
    };

    (@default_chunk) => { 1 };
    (@default_chunk $chunk:literal) => { $chunk };

    (@chunks [] $($name:tt)*) => {};
    (@chunks [$chunk:literal $unit:literal] $name:ident<$life:lifetime $(, $param:ident)*>) => {
        impl<$life $(, $param)*> $name<$life $(, $param)*> {
            $crate::setters! {
                #[doc = concat!("Sets about how many ", $unit, " one command migrates; ", stringify!($chunk), " by default.")]
                chunk(size: u64) => options.chunk = Some(size);

                #[doc = concat!("Sets the most ", $unit, " per second, by pauses between chunks, which then have at most those of one second.")]
                rate(per_second: u64) => options.rate = Some(per_second);
            }
        }
        $crate::migration! { @progress "chunk" $unit $name<$life $(, $param)*> }
    };

    (@one_by_one [] $($name:tt)*) => {};
    (@one_by_one [$one:literal $scanned:literal] $name:ident<$life:lifetime $(, $param:ident)*>) => {
        impl<$life $(, $param)*> $name<$life $(, $param)*> {
            $crate::setters! {
                #[doc = concat!("Sets how many ", $one, " are migrated concurrently; 4 by default. Their documents are in memory.")]
                concurrency(number: usize) => options.concurrency = Some(number);

                #[doc = concat!("Sets the most ", $one, " per second.")]
                rate(per_second: u64) => options.rate = Some(per_second);
            }
        }
        $crate::migration! { @progress "document" $scanned $name<$life $(, $param)*> }
    };

    (@progress $after:literal $unit:literal $name:ident<$life:lifetime $(, $param:ident)*>) => {
        impl<$life $(, $param)*> $name<$life $(, $param)*> {
            $crate::setters! {
                #[doc = concat!("Sets a progress callback, which is called after each ", $after, ", with numbers of ", $unit, ".")]
                on_progress(call: impl FnMut($crate::Progress) + Send + $life) => on_progress = Some(Box::new(call));
            }
        }
    };

    (@selected [] $($name:tt)*) => {};
    (@selected [documents] $name:ident<$life:lifetime $(, $param:ident)*>) => {
        impl<$life $(, $param)*> $name<$life $(, $param)*> {
            $crate::setters! {
                /// Migrates only the documents that match a filter, which compares strings by their bytes. A migration that
                /// resumes needs the same filter.
                filter(filter: $crate::migration::Document) => options.filter = filter;
            }

            /// Skips invalid documents. By default they are refused.
            ///
            /// Each of them is listed in this collection: its `_id`, the `reason`, and the names of `source` and `target`.
            /// Another run replaces the list. The collection must be in the same database, and empty or the list of this
            /// migration. Skipped documents stay as they are. A document without an `_id`, or with null, is only counted.
            ///
            /// Documents that are invalid only together, such as two with one id, are refused anyway.
            pub fn skip_invalid<Any: Send + Sync>(mut self, list: &$crate::migration::Collection<Any>) -> Self {
                self.options.skipped = Some(list.clone_with_type());
                self
            }
        }
    };
}
