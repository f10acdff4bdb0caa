//! The filters and updates, as pure functions.

use mongo_patterns_core::field::no_array;
use mongo_patterns_core::versions;
use mongodb::bson::{Bson, Document, doc};

use crate::settings::Settings;
use crate::steps::Work;

pub(crate) fn set_version(settings: &Settings, version: u32) -> Document {
    doc! { "$set": { settings.version.as_str(): versions::number(version) } }
}

pub(crate) fn of_versions(settings: &Settings, versions: impl Iterator<Item = u32>) -> Document {
    versions::of_versions(&settings.version, versions)
}

/// Matches documents by `_id` that have a version, too. An array of versions is none.
pub(crate) fn guarded(mut ids: Document, versions: Document) -> Document {
    ids.extend(versions.into_iter().map(|(field, condition)| {
        let condition = match condition {
            Bson::Document(one_of) => one_of,
            version => doc! { "$eq": version },
        };
        (field, no_array(condition).into())
    }));
    ids
}

/// Matches documents of the newest version.
pub(crate) fn newest(settings: &Settings) -> Document {
    of_versions(settings, std::iter::once(settings.steps.newest()))
}

/// Matches documents of all versions up to the newest.
pub(crate) fn not_newer(settings: &Settings) -> Document {
    of_versions(settings, 1..=settings.steps.newest())
}

/// Matches documents that a step converts.
pub(crate) fn older(settings: &Settings) -> Document {
    of_versions(settings, settings.steps.older())
}

/// Matches documents that no step converts: of the newest version, or unreadable for this program.
pub(crate) fn not_older(settings: &Settings) -> Document {
    match settings.steps.older().is_empty() {
        true => Document::new(),
        false => doc! { "$nor": [guarded(Document::new(), older(settings))] },
    }
}

/// Returns the stages that convert documents of a version by all steps on the server that follow, and the next version.
pub(crate) fn stages(settings: &Settings, from: u32) -> (Vec<Document>, u32) {
    let (mut all, mut version) = (Vec::new(), from);
    while let Some(Work::Stages(stages)) = settings.steps.from(version) {
        version += 1;
        all.extend(stages.iter().cloned());
        all.push(set_version(settings, version));
    }
    (all, version)
}

/// Counts the documents of each version. Rows have the value of the field, and null for a missing one.
pub(crate) fn count_versions(settings: &Settings) -> [Document; 2] {
    let version = doc! { "$ifNull": [format!("${}", settings.version), null] };
    [
        doc! { "$group": { "_id": version, "documents": { "$sum": 1_i64 } } },
        doc! { "$sort": { "_id": 1 } },
    ]
}

/// Returns an expression of whether the field is a version, or none.
pub(crate) fn is_version(settings: &Settings) -> Document {
    let version = format!("${}", settings.version);
    doc! { "$or": [
        { "$in": [{ "$type": &version }, ["missing", "null", "undefined"]] },
        { "$and": [
            { "$isNumber": &version },
            { "$gte": [&version, 1] },
            { "$lte": [&version, i32::MAX] },
            { "$eq": [&version, { "$trunc": [{ "$cond": [{ "$isNumber": &version }, &version, 0] }, 0] }] },
        ] },
    ] }
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::versions::converting;

    use mongo_patterns_core::FieldName;
    use mongo_patterns_core::document_id::by_id;

    use super::*;
    use crate::steps::{Steps, Work, are_on_server, end_of_typed};

    fn settings(steps: Vec<(u32, Work)>) -> Settings {
        Settings {
            version: FieldName::new("v").unwrap(),
            steps: Steps::new(steps, None).unwrap(),
            retry: mongo_patterns_core::RetryPolicy::default(),
            max_time: None,
        }
    }

    fn stage(n: i32) -> Document {
        doc! { "$set": { "n": n } }
    }

    #[test]
    fn documents_without_the_field_have_version_1() {
        let (first, third) = (
            settings(vec![]),
            settings(vec![(1, Work::Stages(vec![])), (2, Work::Stages(vec![]))]),
        );
        assert_eq!(newest(&first), doc! { "v": { "$in": [null, 1] } });
        assert_eq!(not_newer(&first), newest(&first));
        assert_eq!(newest(&third), doc! { "v": 3 });
        assert_eq!(older(&third), doc! { "v": { "$in": [null, 1, 2] } });
        assert_eq!(not_newer(&third), doc! { "v": { "$in": [null, 1, 2, 3] } });
        let later = settings(vec![(5, Work::Stages(vec![]))]);
        assert_eq!(older(&later), doc! { "v": 5 });
        let no_array = doc! { "$type": "array" };
        assert_eq!(not_older(&first), doc! {});
        let one_of_both = doc! { "v": { "$in": [null, 1, 2], "$not": &no_array } };
        assert_eq!(not_older(&third), doc! { "$nor": [one_of_both] });
        assert_eq!(
            guarded(by_id(&7.into()), older(&third)),
            doc! { "_id": { "$eq": 7 }, "v": { "$in": [null, 1, 2], "$not": no_array } }
        );
        assert_eq!(
            guarded(by_id(&7.into()), newest(&later)),
            doc! { "_id": { "$eq": 7 }, "v": { "$eq": 6, "$not": { "$type": "array" } } }
        );
    }

    #[test]
    fn steps_on_the_server_that_follow_each_other_are_one_pipeline() {
        let typed = || Work::Typed(converting(|old: Document| Ok(old)));
        let on_server = |n| Work::Stages(vec![stage(n)]);
        let settings = settings(vec![
            (1, on_server(1)),
            (2, on_server(2)),
            (3, typed()),
            (4, on_server(4)),
        ]);
        let version = |n: i32| doc! { "$set": { "v": n } };
        assert_eq!(
            stages(&settings, 1),
            (vec![stage(1), version(2), stage(2), version(3)], 3)
        );
        assert_eq!(stages(&settings, 2), (vec![stage(2), version(3)], 3));
        assert_eq!(stages(&settings, 4), (vec![stage(4), version(5)], 5));
        assert_eq!(end_of_typed(&settings.steps, 3), 4);
        assert!(!are_on_server(&settings.steps));
    }
}
