//! The distribution of items over lists, estimates for each pattern, and a recommendation.

mod advice;
pub(crate) mod analysis;
mod designs;
mod distribution;
mod groups;
pub(crate) mod invalid;
mod lists;
pub(crate) mod managed;
pub(crate) mod reference;
mod report;
mod sizes;
pub(crate) mod subset;

use mongo_patterns_core::FieldName;

pub(crate) use self::advice::size;
use self::distribution::Distribution;
use self::invalid::Invalid;
pub(crate) use self::lists::{Fields, size_of};
pub(crate) use self::managed::Managed;
use self::report::Printed;
use crate::args::Sample;
use crate::context::Context;
use crate::failure::{Exit, Outcome};
use crate::progress::Progress;

/// The lists to analyze.
pub(crate) enum Source<'a> {
    /// The documents of a collection, or the elements of their array, grouped by a field.
    Groups {
        collection: &'a str,
        field: &'a str,
        array: Option<&'a str>,
    },
    /// The arrays of documents, with their overflow documents.
    Lists {
        collection: &'a str,
        /// The collection of overflow documents.
        overflow: &'a str,
        fields: Fields<'a>,
        /// The configured threshold.
        threshold: Option<u32>,
    },
}

pub(crate) async fn run(
    context: &Context,
    pattern: &'static str,
    source: &Source<'_>,
    sample: Sample,
    invalid: Option<&Invalid>,
) -> Outcome {
    let collection = match source {
        Source::Groups { collection, .. } | Source::Lists { collection, .. } => collection,
    };
    context.must_exist(collection).await?;
    let progress = Progress::new(context.output, "analyze", "documents", None);
    let distribution = match source {
        Source::Groups {
            collection,
            field,
            array,
        } => {
            let field = FieldName::of_element(*field)?;
            groups::distribution(&context.database.collection(collection), &field, *array, sample.sample).await?
        }
        Source::Lists {
            collection,
            overflow,
            fields,
            threshold,
        } => Distribution {
            threshold: *threshold,
            ..lists::distribution(
                &context.database.collection(collection),
                overflow,
                fields,
                sample.sample,
            )
            .await?
        },
    };
    progress.end();
    let recommended = advice::recommend(&distribution);
    let printed = Printed {
        distribution: &distribution,
        subset_sizes: &[],
        invalid,
        recommended: recommended.as_ref(),
    };
    report::print(context.output, pattern, &printed)?;
    Ok(Exit::Success)
}
