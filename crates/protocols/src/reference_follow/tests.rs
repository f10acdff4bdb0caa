use super::*;
use crate::check::explore;

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
