//! Old documents in a second collection.

use std::time::{Duration, SystemTime};

use futures::TryStreamExt;
use mongo_patterns_archive::{Archive, Repaired};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::{Migration, check_filter};
use mongodb::Collection;
use mongodb::bson::{DateTime, Document, doc};

use crate::args::{self, ArchivePace, ArchiveVerb, Listing, OlderThan, Place};
use crate::confirm::{confirmed, deletion};
use crate::context::Context;
use crate::document_settings::ArchiveSettings;
use crate::failure::{Failure, Outcome};
use crate::findings::Check;
use crate::migrate::{Migrate, Mode};
use crate::output::counted;
use crate::settings::need;
use crate::{catalog, extended_json, indexes, plan, shard};

type Documents = Archive<Document>;

const PATTERN: &str = "archive";
/// The number of documents that show whether a field has dates.
const SAMPLE: i32 = 1000;

pub(crate) async fn run(context: &Context, pattern: &args::Archive) -> Outcome {
    let settings = catalog::settings(context, &pattern.settings).await?;
    context.must_have([&settings.collection]).await?;
    let verb = &pattern.verb;
    let older_than = match verb {
        ArchiveVerb::Plan(older_than) | ArchiveVerb::Run { older_than, .. } => age(*older_than),
        _ => Duration::ZERO, // not used
    };
    let archive = repository(context, &settings, older_than)?;
    let dates = Dates {
        documents: archive.collection(),
        field: settings.age.as_deref().unwrap_or_default(),
    };
    match verb {
        ArchiveVerb::Plan(_) => {
            dates.warn(context).await?;
            let plan = Migrate::new(context, &archive, Mode::Plan, "documents");
            plan.execute(archive.run()).await
        }
        ArchiveVerb::Run {
            replace_archived, pace, ..
        } => {
            let run = match replace_archived {
                true => archive.run().replace_archived(),
                false => archive.run(),
            };
            dates.warn(context).await?;
            moved(context, &archive, ("run", None), run, pace).await
        }
        ArchiveVerb::Restore { filter, pace } => {
            let filter = filter_of("--where", filter)?;
            let filtered = Some((archive.archived_collection(), filter.clone()));
            moved(
                context,
                &archive,
                ("restore", filtered),
                archive.restore_many(filter),
                pace,
            )
            .await
        }
        ArchiveVerb::Repair {
            keep_in,
            dry_run,
            confirmation,
        } => {
            if !dry_run.dry_run {
                let deleted = match keep_in {
                    None => "the older one of each two documents with one `_id` is deleted for good",
                    Some(Place::Archive) => {
                        "each document that is archived too is deleted from the collection for good"
                    }
                    Some(Place::Collection) => {
                        "each archived document that is in the collection too is deleted for good"
                    }
                };
                confirmed(context.output, *confirmation, deleted).await?;
            }
            let repair = |report| {
                let repair = archive.repair().on_progress(report);
                let repair = if dry_run.dry_run { repair.dry_run() } else { repair };
                match keep_in {
                    Some(place) => repair.keep((*place).into()),
                    None => repair,
                }
                .stream()
            };
            let archived = archive.archived_collection();
            let name = async |repaired: &Repaired| deleted(&dates, &archived, *keep_in, repaired).await;
            Check::new(context, &archive, "repair", "documents")
                .repair(*dry_run, repair, name)
                .await
        }
        ArchiveVerb::Delete {
            older_than,
            pace,
            confirmation,
        } => {
            if !pace.dry_run.dry_run {
                let consequence = deletion("archived documents", older_than.older_than);
                confirmed(context.output, *confirmation, &consequence).await?;
            }
            let before = DateTime::from_system_time(SystemTime::now() - age(*older_than));
            moved(context, &archive, ("delete", None), archive.delete_before(before), pace).await
        }
        ArchiveVerb::Verify => {
            let check = Check::new(context, &archive, "verify", "documents");
            let verify = |report| archive.verify().on_progress(report).stream();
            check.verify(Listing { all: true }, verify).await
        }
        ArchiveVerb::Indexes(create) => {
            let is_new = create.create && !create.replace_settings;
            if is_new && catalog::stored(context, &settings).await?.is_none() {
                dates.check().await?;
            }
            if let (true, Some(keep)) = (create.create, keep(&settings)?) {
                let checked = check_filter(&mut Conn::new(), &dates.documents.clone_with_type(), &keep).await;
                checked.map_err(|error| Failure {
                    text: format!("--keep: {error}"),
                    ..error.into()
                })?;
            }
            indexes::run(context.output, &archive, *create).await
        }
        ArchiveVerb::Shard(options) => shard::run(context, &archive, options).await,
    }
}

/// Returns the archive with the settings.
pub(crate) fn repository(context: &Context, settings: &ArchiveSettings, age: Duration) -> Result<Documents, Failure> {
    let name = settings.archive_db.as_deref().unwrap_or(context.database.name());
    let archived = context.database.client().database(name);
    let current = need(settings.collection.as_ref(), PATTERN, "collection")?;
    let archive = need(settings.archive.as_ref(), PATTERN, "archive")?;
    let current = context.database.collection::<Document>(current);
    let mut builder = Documents::builder(current, archived.collection::<Document>(archive))
        .age_field(need(settings.age.as_ref(), PATTERN, "age")?)
        .older_than(age)
        .id_field(settings.id.as_deref().unwrap_or("_id"));
    let is_given = |text: &&String| !text.is_empty();
    if let Some(field) = settings.keep_newest_by.as_ref().filter(is_given) {
        builder = builder.keep_newest_by(field);
    }
    let related = settings.related.as_deref().unwrap_or_default().chunks(3);
    for related in related {
        let [name, archive, field] = related else {
            return Err(Failure::usage(
                "`related` in the profile: write a collection, its archive and a field for each, such as [\"extra_sales\", \"archived_extra_sales\", \"book_id\"]",
            ));
        };
        let current = context.database.collection::<Document>(name);
        builder = builder.related(current, archived.collection::<Document>(archive), field);
    }
    if let Some(keep) = keep(settings)? {
        builder = builder.keep(keep);
    }
    Ok(builder.build()?)
}

fn age(older_than: OlderThan) -> Duration {
    Duration::from_secs(u64::from(older_than.older_than) * 24 * 60 * 60)
}

/// Returns the filter of the documents to keep, if there is one.
fn keep(settings: &ArchiveSettings) -> Result<Option<Document>, Failure> {
    let keep = settings.keep.as_ref().filter(|keep| !keep.is_empty());
    keep.map(|keep| filter_of("--keep", keep)).transpose()
}

/// Parses a filter. The error does not quote it.
fn filter_of(option: &str, text: &str) -> Result<Document, Failure> {
    extended_json::document(text).map_err(|problem| Failure::usage(format!("{option}: {problem}")))
}

/// The field with the ages.
struct Dates<'a> {
    documents: Collection<Document>,
    field: &'a str,
}

impl Dates<'_> {
    /// Refuses a field in which no document of a sample has a date, because nothing would ever be archived.
    async fn check(&self) -> Result<(), Failure> {
        let is_date = doc! { "$cond": [{ "$eq": [{ "$type": format!("${}", self.field) }, "date"] }, 1, 0] };
        let stages = [
            doc! { "$sample": { "size": SAMPLE } },
            doc! { "$group": { "_id": null, "documents": { "$sum": 1 }, "dates": { "$sum": is_date } } },
        ];
        let on = || Failure::on(self.documents.namespace());
        let mut found = self.documents.aggregate(stages).await.map_err(on())?;
        match found.try_next().await.map_err(on())? {
            Some(found) if found.get_i32("dates").is_ok_and(|dates| dates == 0) => Err(Failure::usage(format!(
                "no document of a sample of {} has a date in `{}`, so nothing would be archived, nothing was written: correct --age, or pass --replace-settings if documents get their date later",
                counted(
                    found.get_i32("documents").unwrap_or_default().unsigned_abs().into(),
                    "document"
                ),
                self.field
            ))),
            _ => Ok(()),
        }
    }

    /// Warns of a field in which no document has a date. An index finds one.
    async fn warn(&self, context: &Context) -> Result<(), Failure> {
        let on = || Failure::on(self.documents.namespace());
        let date = doc! { self.field: { "$type": "date" } };
        if self.documents.find_one(date).await.map_err(on())?.is_some() {
            return Ok(());
        }
        let documents = self.documents.estimated_document_count().await.map_err(on())?;
        let text = format!(
            "0 of {} have a date in `{}`",
            counted(documents, "document"),
            self.field
        );
        Ok(plan::warn(context.output, &[text])?)
    }
}

/// Names the one of two documents that a repair would delete, by the rule of the library.
async fn deleted(
    dates: &Dates<'_>,
    archived: &Collection<Document>,
    keep_in: Option<Place>,
    repaired: &Repaired,
) -> Result<Option<String>, Failure> {
    if repaired.deleted == 0 {
        return Ok(None);
    }
    let id = doc! { "_id": { "$eq": &repaired.findings[0].document_id } };
    let age = async |of: &Collection<Document>| -> Result<Option<DateTime>, Failure> {
        let document = of.find_one(id.clone()).await.map_err(Failure::on(of.namespace()))?;
        Ok(document.and_then(|document| document.get_datetime(dates.field).ok().copied()))
    };
    let [current, old] = [age(&dates.documents).await?, age(archived).await?];
    // Of two equal ones, it is the archived one.
    let is_current = matches!(keep_in, Some(Place::Archive)) || (keep_in.is_none() && current < old);
    let (place, age) = if is_current {
        ("collection", current)
    } else {
        ("archive", old)
    };
    let age = age.and_then(|age| age.try_to_rfc3339_string().ok());
    let age = age.as_deref().unwrap_or("no age");
    Ok(Some(format!("the one in the {place}, of {age}")))
}

async fn moved<'a>(
    context: &'a Context,
    archive: &'a Documents,
    (verb, filtered): (&'static str, Option<(Collection<Document>, Document)>),
    mut migration: impl Migration<'a>,
    pace: &ArchivePace,
) -> Outcome {
    pace.pace.set(migration.options());
    let migrate = Migrate {
        verb,
        filtered,
        omits: &crate::migrate::COMMANDS, // of the first chunk
        ..Migrate::new(context, archive, pace.dry_run.mode(), "documents")
    };
    migrate.execute(migration).await
}
