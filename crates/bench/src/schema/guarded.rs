//! Calls whose filter has the version, and plain ones.

use anyhow::{Context, Result};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::contacts::{fill, new, old, on_server, typed};
use crate::bench::Bench;
use crate::bucket::scatter;
use crate::counts::round_trips;
use crate::measure::{Operation, Variant, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
One writer or reader of 1,000 contacts. A write of the repository has the version in its filter. A contact of version 1 \
is converted by a typed step when it is read, and stays stored; a step on the server takes a second command.";

/// The contacts.
const CONTACTS: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Update,
    UpdateOne,
    Get,
    GetTyped,
    GetOnServer,
    FindOne,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::UpdateOne => "update_one by _id",
            Self::Get => "get",
            Self::GetTyped => "get of version 1, typed step",
            Self::GetOnServer => "get of version 1, step on the server",
            Self::FindOne => "find_one",
        }
    }

    fn is_ours(self) -> bool {
        !matches!(self, Self::UpdateOne | Self::FindOne)
    }

    fn documents(self) -> fn(i64) -> Document {
        match self {
            Self::GetTyped | Self::GetOnServer => old,
            _ => new,
        }
    }

    fn operation(self, contacts: &Collection<Document>) -> Result<Operation> {
        let repository = match self {
            Self::GetOnServer => on_server(contacts)?,
            _ => typed(contacts)?,
        };
        let contacts = contacts.clone();
        Ok(operation(move |number| {
            let (contacts, repository) = (contacts.clone(), repository.clone());
            async move {
                let id = (scatter(number) % CONTACTS) as i64;
                let update = doc! { "$inc": { "n": 1 } };
                match self {
                    Self::Update => drop(repository.update(id, update).await?),
                    Self::UpdateOne => drop(contacts.update_one(doc! { "_id": id }, update).await?),
                    Self::FindOne => drop(contacts.find_one(doc! { "_id": id }).await?.context("missing")?),
                    _ => drop(repository.get(id).await?.context("missing")?),
                }
                Ok(())
            }
        }))
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("versioned-calls", "Read and write a document with a version", TEXT);
    let calls = bench.pick(3000, 20);
    for (title, forms) in [
        ("Write", &[Form::Update, Form::UpdateOne][..]),
        ("Read", &[Form::Get, Form::GetTyped, Form::GetOnServer, Form::FindOne]),
    ] {
        let baseline = forms[forms.len() - 1].name();
        let variants = forms.iter().map(|&form| {
            let contacts = bench.collection("versioned");
            let variant = Variant::new(form.name(), calls, move || {
                let contacts = contacts.clone();
                async move {
                    fill(&contacts, CONTACTS as i64, form.documents()).await?;
                    Ok(in_tasks(1, calls, form.operation(&contacts)?))
                }
            });
            let variant = variant.against(baseline);
            if form.is_ours() { variant.ours() } else { variant }
        });
        let entries = compare(bench, title, variants.collect()).await?;
        let mut comparison = Comparison::new(title, "call", entries).with_server_ratios();
        for form in forms {
            let contacts = bench.recorded("versioned_counted");
            fill(&contacts, CONTACTS as i64, form.documents()).await?;
            let work = in_tasks(1, 10, form.operation(&contacts)?);
            comparison.figure(form.name(), "round trips", round_trips(bench, 10, work).await?);
        }
        section.add(&comparison);
    }
    Ok(section)
}
