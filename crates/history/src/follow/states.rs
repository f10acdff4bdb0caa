//! Plans the revisions of writes. Pure.

use mongodb::bson::{DateTime, RawDocumentBuf};

use super::event::{Before, Foreign, number_in};
use crate::form::document::Head;
use crate::settings::Settings;

/// What a follower has recorded of one document. The document can have been written again before its number was changed, so
/// the next images can have each earlier number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// The number in the image of the last recorded write.
    image: Option<u64>,
    /// The revision of the first recorded write, and of the last one.
    first: u64,
    last: u64,
    /// The position of the last one. Empty if the server has other tokens.
    position: String,
}

impl Recorded {
    /// Returns the revision of an image with this number.
    fn revision(&self, number: Option<u64>) -> Option<u64> {
        let is_own = number == self.image || number.is_some_and(|number| (self.first..=self.last).contains(&number));
        is_own.then_some(self.last)
    }

    /// Returns whether a write was recorded already, and is read a second time after an error.
    fn includes(&self, write: &Foreign) -> bool {
        !write.position.is_empty() && write.position <= self.position
    }

    /// Adds a write. One that does not follow the last one begins again.
    fn and(before: Option<&Self>, image: Option<u64>, revision: u64, write: &Foreign) -> Self {
        let before = before.filter(|before| before.last + 1 == revision);
        Self {
            image,
            first: before.map_or(revision, |before| before.first),
            last: revision,
            position: write.position.clone(),
        }
    }
}

/// A revision to store.
#[derive(Debug, PartialEq)]
pub(crate) struct State<'a> {
    pub(crate) head: Head,
    /// `None` for a deletion.
    pub(crate) document: Option<&'a RawDocumentBuf>,
}

/// Returns the head of the next revision.
pub(crate) fn after(newest: Option<Head>, time: DateTime, is_deleted: bool) -> Head {
    Head {
        revision: newest.map_or(0, |newest| newest.revision) + 1,
        time: newest.map_or(time, |newest| time.max(newest.next_time())),
        is_deleted,
    }
}

/// The revisions that writes add to the newest one.
pub(crate) struct States<'a> {
    pub(crate) states: Vec<State<'a>>,
    pub(crate) recorded: Option<Recorded>,
    /// Whether the last write is among them, or was recorded before.
    pub(crate) is_last: bool,
}

/// Returns the revisions that writes add to the newest one.
pub(crate) fn states<'a>(
    settings: &Settings,
    newest: Option<Head>,
    writes: &'a [Foreign],
    recorded: Option<&Recorded>,
) -> States<'a> {
    let mut recorded = recorded.cloned();
    let mut states: Vec<State<'a>> = Vec::new();
    let mut is_last = true;
    for write in writes {
        if recorded.as_ref().is_some_and(|recorded| recorded.includes(write)) {
            is_last = true;
            continue;
        }
        let at = states.last().map(|state| state.head).or(newest);
        let number = write.after.as_ref().and_then(|after| number_in(settings, after));
        is_last = match (write.before, at) {
            (Before::Absent, Some(at)) if states.is_empty() => {
                // An insert of a repository has a copy, whose number is not above the newest. An insert that was read a
                // second time, by another process, is before the deletion.
                at.is_deleted && number.is_none_or(|number| number > at.revision) && write.time > at.time
            }
            (Before::Absent, at) => at.is_none_or(|at| at.is_deleted),
            (Before::Number(before), Some(at)) => {
                let known = recorded.as_ref().and_then(|recorded| recorded.revision(before));
                !at.is_deleted && known.or(before) == Some(at.revision)
            }
            // A document without a history has no revision of its deletion.
            (Before::Number(_), None) => write.after.is_some(),
        };
        if !is_last {
            continue;
        }
        let head = after(at, write.time, write.after.is_none());
        recorded = Some(Recorded::and(recorded.as_ref(), number, head.revision, write));
        states.push(State {
            head,
            document: write.after.as_ref(),
        });
    }
    States {
        states,
        recorded,
        is_last,
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::rawdoc;

    use super::*;

    fn head(revision: u64, is_deleted: bool) -> Option<Head> {
        Some(Head {
            revision,
            time: DateTime::from_millis(100),
            is_deleted,
        })
    }

    fn write(before: Before, after: Option<i32>, millis: i64) -> Foreign {
        let after = after.map(|number| rawdoc! { "policyId": 1, "revision": number });
        let time = DateTime::from_millis(millis);
        let position = String::new();
        Foreign {
            before,
            after,
            time,
            position,
        }
    }

    /// The numbers, times and deletions.
    fn found(newest: Option<Head>, writes: &[Foreign], recorded: Option<&Recorded>) -> (Vec<(u64, i64, bool)>, bool) {
        let found = states(&Settings::example(), newest, writes, recorded);
        let states = found.states.iter().map(|state| {
            let head = state.head;
            assert_eq!(head.is_deleted, state.document.is_none());
            (head.revision, head.time.timestamp_millis(), head.is_deleted)
        });
        (states.collect(), found.is_last)
    }

    const AT_3: Before = Before::Number(Some(3));

    #[test]
    fn writes_after_the_newest_revision_are_the_next_ones() {
        let writes = [
            write(AT_3, Some(3), 200),
            write(AT_3, Some(3), 200),
            write(AT_3, None, 50),
        ];
        let expected = vec![(4, 200, false), (5, 201, false), (6, 202, true)];
        assert_eq!(found(head(3, false), &writes, None), (expected, true));
        // The number was replaced by an older one, and then removed.
        let writes = [write(AT_3, Some(2), 200), write(Before::Number(Some(2)), Some(2), 201)];
        assert_eq!(
            found(head(3, false), &writes, None),
            (vec![(4, 200, false), (5, 201, false)], true)
        );
    }

    #[test]
    fn a_write_before_the_newest_revision_has_none() {
        let writes = [write(AT_3, Some(3), 200)];
        assert_eq!(found(head(4, false), &writes, None), (vec![], false));
        assert_eq!(found(head(3, true), &writes, None), (vec![], false));
        // A repository has written in between.
        let writes = [writes[0].clone(), write(Before::Number(Some(4)), Some(4), 300)];
        assert_eq!(found(head(4, false), &writes, None), (vec![(5, 300, false)], true));
    }

    #[test]
    fn images_of_a_document_that_was_numbered_since_have_the_old_number() {
        // The numbers 4 and 5 were set in the document between writes.
        let recorded = Recorded {
            image: Some(3),
            first: 4,
            last: 6,
            position: "82B".to_owned(),
        };
        let of = |number: u64, revision: u64| {
            let writes = [write(Before::Number(Some(number)), Some(3), 200)];
            found(head(revision, false), &writes, Some(&recorded))
        };
        for number in 3..=6 {
            assert_eq!(of(number, 6), (vec![(7, 200, false)], true), "{number}");
        }
        for (number, revision) in [(2, 6), (7, 6), (3, 7), (6, 7)] {
            assert_eq!(of(number, revision), (vec![], false), "{number} {revision}");
        }
        assert_eq!(of(7, 7), (vec![(8, 200, false)], true));
        // A write that is read a second time.
        let at = |position: &str| Foreign {
            position: position.to_owned(),
            ..write(AT_3, Some(3), 200)
        };
        assert_eq!(
            found(head(6, false), &[at("82A"), at("82B")], Some(&recorded)),
            (vec![], true)
        );
        let new = [at("82B"), at("82C")];
        assert_eq!(
            found(head(6, false), &new, Some(&recorded)),
            (vec![(7, 200, false)], true)
        );
    }

    #[test]
    fn an_insert_is_the_first_revision_or_follows_a_deletion() {
        let unnumbered = Foreign {
            before: Before::Absent,
            after: Some(rawdoc! { "policyId": 1 }),
            time: DateTime::from_millis(200),
            position: String::new(),
        };
        let inserted = [unnumbered.clone()];
        assert_eq!(found(None, &inserted, None), (vec![(1, 200, false)], true));
        assert_eq!(found(head(3, true), &inserted, None), (vec![(4, 200, false)], true));
        assert_eq!(found(head(3, false), &inserted, None), (vec![], false));
        // Before the deletion: it was read a second time.
        let before = Foreign {
            time: DateTime::from_millis(100),
            ..unnumbered.clone()
        };
        assert_eq!(found(head(3, true), &[before], None), (vec![], false));
        // That of a repository, whose document was deleted since.
        let own = [write(Before::Absent, Some(1), 50)];
        assert_eq!(found(head(3, true), &own, None), (vec![], false));
        assert_eq!(found(None, &own, None), (vec![(1, 50, false)], true));
        let again = [write(AT_3, None, 200), write(Before::Absent, Some(3), 210)];
        assert_eq!(
            found(head(3, false), &again, None),
            (vec![(4, 200, true), (5, 210, false)], true)
        );
        // Then without a number.
        let more = [unnumbered, write(Before::Number(None), None, 300)];
        assert_eq!(found(None, &more, None), (vec![(1, 200, false), (2, 300, true)], true));
        assert_eq!(found(None, &[write(AT_3, None, 300)], None), (vec![], false));
    }
}
