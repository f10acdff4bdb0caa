use super::*;
use crate::check::explore;
use crate::traces::{Code, all, alone};

const CURRENT: &str = "when the follower has processed all changes, every copy is current";

fn values(version: u8, content: u8) -> Values {
    Values { version, content }
}

/// A source of version 1 with current copies.
fn current() -> Documents {
    Documents::of(values(1, 0), [values(1, 0); 2])
}

const RENAME: Client = Client::Source {
    content: 1,
    replaces: false,
};
const REPLACE: Client = Client::Source {
    content: 2,
    replaces: true,
};
const UPDATE: Client = Client::Update(3);

fn starts() -> Vec<(Documents, Vec<Client>)> {
    let copy = |version, content| Client::Copy(0, values(version, content));
    let pairs = [
        [RENAME, UPDATE],
        [REPLACE, UPDATE],
        [RENAME, REPLACE],
        [UPDATE, Client::Update(4)],
        [UPDATE, copy(1, 0)],
        [RENAME, copy(1, 0)],
        [REPLACE, copy(2, 5)],
        [UPDATE, copy(2, 5)],
        [copy(0, 5), copy(1, 6)],
    ];
    let of = |pair: [Client; 2]| {
        let clients = pair.into_iter().chain([Client::Follow(Follow::new())]);
        (current(), clients.collect())
    };
    pairs.map(of).into()
}

#[test]
fn every_copy_is_current_when_all_changes_are_processed() {
    let form = Form::Ours;
    let starts = starts();
    explore(Following { form, starts }).assert_holds(1000);
}

/// Versions alone do not show what another program has changed.
#[test]
fn a_follower_that_compares_versions_alone_leaves_stale_copies() {
    let form = Form::VersionsOnly;
    let starts = starts();
    explore(Following { form, starts }).assert_refuted(&[CURRENT]);
}

/// A slow sweep stores a copy after the follower has compared the source.
#[test]
fn a_follower_of_sources_alone_leaves_stale_copies() {
    let form = Form::SourcesOnly;
    let starts = starts();
    explore(Following { form, starts }).assert_refuted(&[CURRENT]);
}

#[test]
fn a_follower_that_stores_its_position_first_leaves_stale_copies() {
    let form = Form::PositionFirst;
    let starts = starts();
    explore(Following { form, starts }).assert_refuted(&[CURRENT]);
}

#[test]
fn the_code_sends_the_commands_of_the_model() {
    let following = Following {
        form: Form::Ours,
        starts: Vec::new(),
    };
    let sent = |change: Client| {
        let mut documents = current();
        alone(&following, &mut documents, change);
        let mut sent = alone(&following, &mut documents, Client::Follow(Follow::new()));
        // One change stream, whose further reads are no commands of their own.
        let mut streams = 0;
        sent.retain(|command| {
            streams += usize::from(*command == "read the server");
            *command != "read the server" || streams == 1
        });
        // The code reads the copies of a batch, and their sources, together.
        let together = ["read orders", "read customers"].repeat(2);
        while let Some(at) = sent.windows(4).position(|four| four == together) {
            sent.drain(at..at + 2);
        }
        // The settings, the position, and whether the collections exist.
        let first = vec![
            "read mongo_patterns",
            "read mongo_patterns",
            "read orders",
            "read customers",
        ];
        [first, sent].concat()
    };
    let mut code = Code::of("reference_follow").of_one_field();
    let follow = "reference_follow::Followed ReferenceRepository::follow";
    code.sends(&format!("{follow}, a change of a source behind"), &sent(RENAME));
    let copy = Client::Copy(0, values(1, 5));
    code.sends(&format!("{follow}, a change of a copy behind"), &sent(copy));
    let (_, clients) = starts().remove(0);
    let following = Following {
        starts: vec![(current(), clients)],
        ..following
    };
    code.has_no_trace_of(&all(following), []);
}
