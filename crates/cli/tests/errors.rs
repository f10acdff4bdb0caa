//! Errors name the cause and what to do, and contain no user values.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{DateTime, doc};

use crate::reference::reference;
use crate::subset::subset;
use crate::support::*;

#[tokio::test]
async fn the_error_for_a_missing_setting_names_its_option_and_its_profile_key() {
    testkit::run(async |db| {
        for name in ["a", "product", "review", "trades"] {
            insert(db, name, [doc! {}]).await;
        }
        for (arguments, option) in [
            (vec!["bucket", "verify"], "--collection"),
            (vec!["bucket", "verify", "--collection", "a"], "--key "),
            (vec!["archive", "verify", "--collection", "a"], "--archive"),
            (vec!["schema", "verify"], "the collection"),
            (vec!["outlier", "verify", "--collection", "a"], "--array"),
            (vec!["subset", "verify", "--collection", "a"], "--children-collection"),
            (vec!["subset", "analyze"], "--children-collection"),
            (vec!["subset", "analyze", "--children-collection", "a"], "--parent"),
            ([vec!["subset", "verify"], REVIEWS[..10].to_vec()].concat(), "--order"),
            (vec!["embedded", "analyze", "--source", "a"], "--reference"),
            (
                words::<6>("embedded plan --collection a --children c").to_vec(),
                "--source",
            ),
        ] {
            let ran = ran(on(db).args(&arguments));
            ran.says(2, option);
            ran.says(2, "missing");
        }
        ran(on(db).args(["bucket", "verify", "--pagesize", "7"])).says(2, "--page-size");
        bucket(db, &["verify", "--page-size", "0"]).says(2, "page size");
    })
    .await;
}

#[tokio::test]
async fn the_error_for_an_invalid_name_names_its_option() {
    testkit::run(async |db| {
        let subset = [&["subset"], &REVIEWS[..10]].concat();
        let outlier = ["outlier", "--collection", "a"];
        let embedded = ["embedded", "--collection", "a", "--children", "c"];
        for (settings, arguments, text) in [
            (&subset[..], "--order -a.b verify", "--order: "),
            (&subset, "--order - verify", "--order: "),
            (&subset, "--order a --embed $x verify", "--embed: "),
            (&subset, "--version a.b verify", "--version: "),
            (
                &subset,
                "--children-collection product --order a verify",
                "--collection and --children-collection",
            ),
            (&outlier, "--array $a verify", "--array: "),
            (
                &outlier,
                "--array b --extras-collection a verify",
                "--collection and --extras-collection",
            ),
            (&embedded, "--sort a.b verify", "--sort: "),
            (&embedded, "--source a plan", "--collection and --source"),
            (&["bucket"], "--key a.b verify", "--key: "),
        ] {
            ran(on(db).args(settings).args(arguments.split(' '))).says(2, text);
        }
        let impossible = ran(on(db).args(["--db", "a b", "init", "a"]));
        impossible.says(3, "`find` on a b.mongo_patterns: ");
        impossible.says(3, "--db");
    })
    .await;
}

#[tokio::test]
async fn the_error_for_the_name_of_another_replica_set_names_the_option() {
    testkit::run(async |db| {
        let (address, _) = db.server().uri().split_once('?').unwrap();
        let uri = format!("{address}?replicaSet=nosuch&serverSelectionTimeoutMS=500");
        ran(through(db, &uri).args(["init", "a"])).says(3, "check the address, the TLS settings and `replicaSet`");
    })
    .await;
}

/// A missing collection has no findings, so it must not be reported as correct.
#[tokio::test]
async fn a_missing_collection_is_an_error() {
    testkit::run(async |db| {
        let list = |line: &'static str| line.split(", ").map(|verb| verb.split(' ').collect::<Vec<_>>());
        for verb in list("verify, repair --dry-run, analyze, migrate, migrate --back, plan") {
            bucket(db, &verb).says(2, &format!("no collection {}.", db.database().name()));
        }
        for verb in list("verify, repair --dry-run, analyze, plan --from collection, migrate --from embedded") {
            subset(db, &verb).says(2, "no collection");
        }
        let lists: [&str; 6] = words("outlier --collection sales --array a verify");
        let parents: [&str; 6] = words("embedded --collection patron --children a verify");
        for verb in [lists, parents] {
            assert_eq!(ran(on(db).args(verb)).code, Some(2), "{verb:?}");
        }
        for verb in list("verify, repair --dry-run, analyze, plan, migrate") {
            reference(db, &verb).says(2, "no collection");
        }
    })
    .await;
}

#[tokio::test]
async fn the_error_for_an_invalid_profile_names_file_and_line() {
    testkit::run(async |db| {
        let folder = tempfile::tempdir().unwrap();
        let profile = write(folder.path(), "p.toml", "database = \"x\"\n[[bucket]]\npagesize = 3\n");
        let ran = ran(on(db).args(["--profile", &profile, "bucket", "verify"]));
        for text in [profile.as_str(), "pagesize", "line 3"] {
            ran.says(2, text);
        }
    })
    .await;
}

#[tokio::test]
async fn the_document_at_fault_is_in_the_output_and_not_in_the_error() {
    testkit::run(async |db| {
        let good = doc! { "_id": "good", "customerId": 1, "date": DateTime::now() };
        let bad = doc! { "_id": "secret-17", "customerId": 1, "date": "yesterday" };
        insert(db, "flat", [good, bad]).await;
        let ran = bucket(db, &["migrate", "--keep-ids", "--json"]);
        ran.says(1, &format!("{}.trades", db.database().name()));
        ran.says(1, "`date`");
        assert!(!ran.err.contains("secret-17"), "{}", ran.err);
        let error = &ran.json()[0];
        for (name, value) in [
            ("type", "error"),
            ("code", "invalid-time"),
            ("remedy", "skip-invalid"),
            ("pattern", "bucket"),
            ("operation", "migrate_from_flat"),
            ("namespace", &format!("{}.flat", db.database().name())),
            ("collection", "flat"),
            ("_id", "secret-17"),
            ("field", "date"),
            ("text", ran.err.trim_start_matches("error: ").trim()),
        ] {
            assert_eq!(error[name], value, "{error}");
        }
        assert!(all(db, "trades").await.is_empty());
    })
    .await;
}

#[test]
fn an_unreachable_server_has_its_own_exit_code_and_no_password_is_printed() {
    let uri = "mongodb://joe:s3cret@127.0.0.1:1/?serverSelectionTimeoutMS=200";
    for connection in [
        vec!["--uri", uri],
        vec!["--uri", "mongodb://joe:s3cret/x@h/"],
        vec!["--help"],
        vec!["-h"],
    ] {
        let mut program = program();
        program.env("MONGODB_URI", uri).args(&connection);
        let ran = ran(program.args(["--db", "x", "bucket", "verify"]).args(BUCKETS));
        assert!(!ran.err.contains("s3cret") && !ran.out.contains("s3cret"), "{ran:?}");
        let expected = match connection[..] {
            ["--uri", same] if same == uri => 3,
            ["--uri", _] => 2,
            _ => 0,
        };
        assert_eq!(ran.code, Some(expected), "{ran:?}");
    }
}

#[test]
fn completions_and_manual_pages_need_no_server() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        ran(program().args(["completions", shell]))
            .ok()
            .shows(["mongo-patterns"]);
    }
    ran(program().arg("man")).ok().shows([".TH mongo-patterns"]);
    let folder = tempfile::tempdir().unwrap();
    ran(program().arg("man").arg(folder.path())).ok();
    assert!(folder.path().join("mongo-patterns-bucket-migrate.1").exists());
}

#[test]
fn help_fits_80_columns() {
    let commands = ",bucket,bucket migrate,bucket shard,outlier migrate,outlier repair,subset verify,embedded migrate,\
        reference analyze,reference migrate,reference repair,init";
    for command in commands.split(',') {
        let help = ran(program().args(command.split_whitespace()).arg("--help"));
        help.ok().fits_80_columns();
    }
}

#[test]
fn a_closed_output_does_not_panic() {
    use std::process::Stdio;
    let mut child = program()
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        !String::from_utf8_lossy(&output.stderr).contains("panicked"),
        "{output:?}"
    );
}
