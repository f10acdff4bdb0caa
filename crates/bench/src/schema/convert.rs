//! The conversion of all documents, alone and beside writers.

use anyhow::{Result, ensure};
use futures::future::FutureExt;
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::contacts::{fill, old, on_server, stages, typed};
use crate::bench::Bench;
use crate::beside::beside;
use crate::bucket::scatter;
use crate::measure::{Variant, Work, compare};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
Contacts of version 1 are converted to version 2, in chunks of 500, or by one updateMany of the same stages by hand. Then \
again, while eight writers of the second release update random contacts without a pause: the conversion and the writers \
share the server.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Typed,
    OnServer,
    UpdateMany,
}

impl Form {
    const ALL: [Self; 3] = [Self::Typed, Self::OnServer, Self::UpdateMany];

    fn name(self) -> &'static str {
        match self {
            Self::Typed => "migrate, typed step",
            Self::OnServer => "migrate, step on the server",
            Self::UpdateMany => "one updateMany by hand",
        }
    }

    async fn convert(self, contacts: &Collection<Document>) -> Result<()> {
        match self {
            Self::Typed => drop(typed(contacts)?.migrate().await?),
            Self::OnServer => drop(on_server(contacts)?.migrate().await?),
            Self::UpdateMany => {
                let mut update = stages();
                update.push(doc! { "$set": { "schemaVersion": 2 } });
                let older = doc! { "schemaVersion": { "$in": [null, 1] } };
                contacts.update_many(older, update).await?;
            }
        }
        let left = doc! { "schemaVersion": { "$ne": 2 } };
        ensure!(contacts.count_documents(left).limit(1).await? == 0, "a contact is left");
        Ok(())
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("convert", "Convert documents to the next version", TEXT);
    let documents = bench.pick(50_000, 1000);
    let title = "Alone";
    let variants = Form::ALL.map(|form| {
        let contacts = bench.collection("converted");
        let variant = Variant::new(form.name(), documents, move || {
            let contacts = contacts.clone();
            async move {
                fill(&contacts, documents as i64, old).await?;
                Ok::<Work, _>(async move { form.convert(&contacts).await }.boxed())
            }
        });
        let variant = variant.against(Form::UpdateMany.name());
        if form == Form::UpdateMany {
            variant
        } else {
            variant.ours()
        }
    });
    let entries = compare(bench, title, variants.into()).await?;
    let mut comparison = Comparison::new(title, "call", entries).with_server_ratios();
    for form in Form::ALL {
        let contacts = bench.wide("converted_beside");
        let (p99, seconds) = beside_writers(form, &contacts, documents).await?;
        comparison.figure(form.name(), "documents/s beside 8 writers", documents as f64 / seconds);
        comparison.figure(form.name(), "p99 of the writers, ms", p99);
    }
    section.add(&comparison);
    Ok(section)
}

/// Converts beside writers. Returns the 99th percentile of the time of a write in milliseconds, and the seconds of the
/// conversion.
async fn beside_writers(form: Form, contacts: &Collection<Document>, documents: u64) -> Result<(f64, f64)> {
    fill(contacts, documents as i64, old).await?;
    let repository = on_server(contacts)?;
    let write = move |number| {
        let repository = repository.clone();
        async move {
            let id = (scatter(number) % documents) as i64;
            repository.update(id, doc! { "$inc": { "n": 1 } }).await?;
            Ok(())
        }
    };
    beside(write, form.convert(contacts)).await
}
