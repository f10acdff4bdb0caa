use mongodb::bson::DateTime;

use super::{StoredField, StoredInterval, corrected, problems, wrong};
use crate::form::{BEGIN, END};
use crate::repair::finding::Unrepaired;

fn time(millis: i64) -> DateTime {
    DateTime::from_millis(millis)
}

/// After all starts but those that are scheduled.
const NOW: DateTime = DateTime::from_millis(100_000);

fn stored(number: i32, from: Option<DateTime>, to: Option<DateTime>, valid: Option<bool>) -> StoredInterval {
    StoredInterval {
        document_id: number.into(),
        id: "pants".into(),
        from: from.map_or(StoredField::Missing, StoredField::Value),
        to: to.map_or(StoredField::Missing, StoredField::Value),
        valid: valid.map_or(StoredField::Missing, StoredField::Value),
    }
}

/// Stores the first corrections.
fn written(before: &[StoredInterval], documents: usize) -> Vec<StoredInterval> {
    let mut after = before.to_vec();
    for (one, times) in wrong(corrected(before, NOW).unwrap()).into_iter().take(documents) {
        let place = after.iter_mut().find(|other| other.document_id == one.document_id);
        let place = place.unwrap();
        place.from = StoredField::Value(times.from);
        place.to = StoredField::Value(times.to);
        place.valid = StoredField::Value(times.is_valid);
    }
    after
}

fn times(stored: &[StoredInterval]) -> Vec<(i64, i64, bool)> {
    let millis = |time: DateTime| time.timestamp_millis();
    let times = corrected(stored, NOW).unwrap().into_iter();
    times
        .map(|(_, times)| (millis(times.from), millis(times.to), times.is_valid))
        .collect()
}

fn contradiction(stored: &[StoredInterval]) -> Option<Unrepaired> {
    corrected(stored, NOW).err().map(|(_, contradiction)| contradiction)
}

/// All groups of three documents, of these fields.
#[test]
fn a_correction_leaves_no_problem_keeps_each_end_and_can_be_interrupted() {
    let starts = [None, Some(time(5)), Some(time(6)), Some(time(200_000))];
    let ends = [None, Some(time(6)), Some(time(7)), Some(END)];
    let valid = [None, Some(false), Some(true)];
    let one = |number: i32, of: usize| {
        let (from, to, is_valid) = (starts[of % 4], ends[of / 4 % 4], valid[of / 16]);
        stored(number, from, to, is_valid)
    };
    let (mut right, mut contradictory) = (0, 0);
    for group in (0..48 * 48 * 48).step_by(5) {
        let before = [one(0, group % 48), one(1, group / 48 % 48), one(2, group / 48 / 48)];
        let found = problems(&before, NOW);
        if let Some(contradiction) = contradiction(&before) {
            assert!(!found.is_empty(), "{contradiction:?}: {before:?}");
            contradictory += 1;
            continue;
        }
        right += 1;
        let expected = times(&before);
        let is_correct = wrong(corrected(&before, NOW).unwrap()).is_empty();
        assert_eq!(found.is_empty(), is_correct, "{before:?}");
        for documents in 1..=3 {
            let after = written(&before, documents);
            assert_eq!(times(&after), expected, "{documents} of {before:?}");
            let marked = |of: &[StoredInterval]| of.iter().filter(|one| one.is_marked()).count();
            assert!(marked(&after) <= marked(&before).max(1), "{before:?}");
        }
        let done = written(&before, 3);
        assert_eq!(problems(&done, NOW), [], "{before:?}");
        for (one, times) in corrected(&before, NOW).unwrap() {
            assert!(one.end().is_none_or(|end| end == times.to), "{before:?}");
        }
    }
    assert!(right > 1000 && contradictory > 1000, "{right} {contradictory}");
}

#[test]
fn what_the_manual_leaves_after_three_changes_is_corrected() {
    let valid = |n: i32| stored(n, Some(time(i64::from(n))), Some(END), Some(true));
    let before = [
        stored(0, Some(BEGIN), Some(time(3)), Some(false)),
        valid(1),
        valid(2),
        valid(3),
    ];
    let found = problems(&before, NOW);
    let names: Vec<&str> = found.iter().map(|(_, problem)| problem.name()).collect();
    assert_eq!(names, ["SeveralValid", "Overlap", "Overlap", "Overlap"]);
    let (begin, end) = (BEGIN.timestamp_millis(), END.timestamp_millis());
    assert_eq!(
        times(&before),
        [(begin, 1, false), (1, 2, false), (2, 3, false), (3, end, true)]
    );
}

#[test]
fn a_mark_follows_the_times_when_a_scheduled_interval_begins() {
    let scheduled = |from: i64, mark: bool| {
        [
            stored(0, Some(time(5)), Some(time(from)), Some(!mark)),
            stored(1, Some(time(from)), Some(END), Some(mark)),
        ]
    };
    let end = END.timestamp_millis();
    for (from, is_valid) in [(50, true), (200_000, false)] {
        let expected = [(5, from, !is_valid), (from, end, is_valid)];
        assert_eq!(times(&scheduled(from, !is_valid)), expected);
        assert_eq!(times(&scheduled(from, is_valid)), expected);
        assert_eq!(problems(&scheduled(from, is_valid), NOW), []);
    }
}

#[test]
fn gaps_stay() {
    let before = [
        stored(0, Some(time(5)), Some(time(7)), Some(false)),
        stored(1, Some(time(9)), Some(time(11)), Some(false)),
    ];
    assert_eq!(problems(&before, NOW), []);
    assert_eq!(times(&before), [(5, 7, false), (9, 11, false)]);
}

#[test]
fn what_contradicts_itself_is_not_corrected() {
    let one = |n, from: i64, to, valid| stored(n, Some(time(from)), to, Some(valid));
    let cases = [
        // The mark is on the older one.
        (
            vec![one(0, 5, Some(time(7)), true), one(1, 7, None, false)],
            Unrepaired::EndMissing,
        ),
        (
            vec![one(0, 5, Some(END), true), one(1, 7, Some(END), false)],
            Unrepaired::Mark,
        ),
        (vec![one(0, 5, Some(time(7)), true)], Unrepaired::Mark),
        (
            vec![one(0, 5, Some(time(9)), false), one(1, 7, Some(END), true)],
            Unrepaired::Overlap,
        ),
        (
            vec![one(0, 5, Some(time(4)), false), one(1, 7, Some(END), true)],
            Unrepaired::Reversed,
        ),
        (
            vec![one(0, 5, Some(END), true), one(1, 5, Some(END), true)],
            Unrepaired::SameStart,
        ),
        (
            vec![stored(0, None, None, None), stored(1, None, None, None)],
            Unrepaired::SameStart,
        ),
        // Only the end of the recipe's first document moves, and that has a start.
        (
            vec![
                one(0, 5, Some(time(7)), false),
                stored(1, None, Some(time(9)), Some(false)),
                one(2, 9, Some(END), true),
            ],
            Unrepaired::Overlap,
        ),
        (vec![stored(0, Some(END), None, None)], Unrepaired::Reversed),
    ];
    for (before, expected) in cases {
        assert_eq!(contradiction(&before), Some(expected), "{before:?}");
    }
}
