use futures::TryStreamExt;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::*;
use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::verify::{Results, Verify, begin, scan};
use mongo_patterns_core::versions::{Unknown, convert, encode, unknown, version_of};
use mongo_patterns_core::{Result, send};
use mongodb::bson;
use mongodb::bson::{RawDocument, doc};
use mongodb::options::FindOptions;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::finding::{Finding, Problem};
use crate::repository::{SchemaRepository, Shared};
use crate::steps::Work;

/// The documents in a batch of the server.
const BATCH: u32 = 1000;

/// Checks a document of the newest version: its type, and the fields that the type does not have.
type Check = fn(&RawDocument) -> Option<Vec<String>>;

impl<D: Serialize + DeserializeOwned> SchemaRepository<D> {
    /// Checks all stored documents: their versions, and whether the types fit.
    ///
    /// It finds the documents that the [migration](Self::migrate) cannot convert, before it runs, and documents of programs
    /// that write without the repository.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(contacts: mongo_patterns::schema::SchemaRepository<Document>) -> mongo_patterns::Result<()> {
    /// let mut findings = contacts.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`verify`](mongo_patterns_core::verify) says what is true of the verifications of all patterns. An older document is
    /// converted by the typed steps from its version on, up to the first step on the server. A field with null counts as
    /// known.
    ///
    /// # Cost
    /// The server reads all documents and sends them to the client, one round trip for each 1000.
    pub fn verify(&self) -> Verify<'_, Problem> {
        let shared = self.shared();
        Verify::new(shared.ensure(), move |reporter| {
            scan(move |results| find_problems(shared, unknown_fields::<D>, reporter, results))
        })
    }
}

/// Returns the fields that a type does not have. `None` if the document does not fit the type.
fn unknown_fields<D: Serialize + DeserializeOwned>(document: &RawDocument) -> Option<Vec<String>> {
    let decoded: D = bson::deserialize_from_slice(document.as_bytes()).ok()?;
    let others = unknown(document, &encode(&decoded).ok()?);
    let others = others.iter().filter(|field| !field.is_null());
    Some(others.map(Unknown::path).collect())
}

async fn find_problems(
    shared: &Shared,
    check: Check,
    mut reporter: Reporter<'_>,
    mut results: Results<Finding>,
) -> Result<()> {
    let (collection, others) = (&shared.collection, shared.known_others());
    begin(&mut reporter, [collection]).await?;
    let options = FindOptions::builder().batch_size(BATCH).build();
    let mut rows = send::find_rows(collection, doc! {}, send::latest(options)).await?;
    while let Some(document) = rows.try_next().await? {
        reporter.advance(1);
        if let Some((problem, fields)) = problem_of(shared, &others, check, &document) {
            let mut finding = Finding::new(collection.namespace(), id_of(&document), problem);
            finding.fields = fields;
            results.add(finding).await;
        }
    }
    Ok(())
}

fn problem_of(
    shared: &Shared,
    others: &Others,
    check: Check,
    document: &RawDocument,
) -> Option<(Problem, Vec<String>)> {
    let settings = &shared.settings;
    let steps = &settings.steps;
    let none = |problem| Some((problem, Vec::new()));
    let Some(mut version) = version_of(&settings.version, document) else {
        return none(Problem::InvalidVersion);
    };
    if version > steps.newest() {
        return none(Problem::NewerVersion { version });
    }
    if version < steps.oldest() {
        return none(Problem::NoStep { version });
    }
    let mut document = document.to_owned();
    while let Some(work) = steps.from(version) {
        let Work::Typed(step) = work else { return None };
        match convert(&settings.version, step, version, &document) {
            Ok(converted) => document = converted,
            Err(_) => return none(Problem::NotConverted { version }),
        }
        version += 1;
    }
    match check(&document) {
        None => none(Problem::NotDecoded),
        Some(mut fields) => {
            let of_others = |name: &str| {
                let field = name.split('.').next();
                others.kept().iter().any(|kept| field == Some(kept))
            };
            fields.retain(|name| name != "_id" && name != settings.version.as_str() && !of_others(name));
            (!fields.is_empty()).then_some((Problem::UnknownFields, fields))
        }
    }
}
