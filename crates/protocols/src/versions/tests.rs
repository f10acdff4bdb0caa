use super::*;
use crate::check::{Explored, explore};
use crate::traces::{Code, all, alone};

fn explored(form: Form) -> Explored {
    explore(Versions { form })
}

#[test]
fn guarded_writes_lose_nothing_beside_a_conversion() {
    explored(Form::Typed).assert_holds(500);
    explored(Form::OnServer).assert_holds(200);
}

/// A correct conversion does not help.
#[test]
fn a_first_release_that_writes_by_id_loses() {
    explored(Form::Unguarded).assert_refuted(&[
        "an acknowledged write is read",
        "a converted document has no field of the old version",
    ]);
}

#[test]
fn a_conversion_by_a_read_and_a_replacement_loses() {
    explored(Form::AtRead).assert_refuted(&["an acknowledged write is read", "a document is converted once"]);
    explored(Form::Batch).assert_refuted(&["an acknowledged write is read"]);
}

#[test]
fn the_code_sends_the_commands_of_the_model() {
    let versions = Versions { form: Form::Typed };
    let sent = |mut documents: Documents, call| alone(&versions, &mut documents, Client::of(call));
    let (is_new, bit) = (true, 1);
    let update = Call::Update { is_new, bit };
    let newest = Documents {
        is_new,
        ..Documents::default()
    };
    let mut code = Code::of("versions");
    code.sends(
        "schema_contacts::Contacts SchemaRepository::update",
        &sent(newest, update),
    );
    code.sends(
        "schema_contacts::Contacts SchemaRepository::update, of an older version",
        &sent(Documents::default(), update),
    );
    // Two chunks, after the settings and the `_id`s are read.
    let chunk = sent(Documents::default(), Call::Migrate);
    let migrated = [vec!["read mongo_patterns", "read contacts"], chunk.clone(), chunk];
    code.sends(
        "schema_contacts::Contacts SchemaRepository::migrate",
        &migrated.concat(),
    );
    code.has_no_trace_of(&all(versions), []);
}
