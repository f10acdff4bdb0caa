//! Errors name the cause and what to do, and contain no user values.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{DateTime, doc};

use crate::reference::reference;
use crate::support::*;

#[tokio::test]
async fn the_error_for_a_missing_setting_names_its_option_and_its_profile_key() {
    testkit::run(async |db| {
        for (arguments, option) in [
            (vec!["bucket", "verify"], "--key "),
            (
                vec!["bucket", "verify", "--key", "k", "--key-type", "int"],
                "--collection",
            ),
            (vec!["bucket", "verify", "--key", "k"], "--key-type"),
            (vec!["outlier", "verify", "--collection", "a"], "--array"),
            (vec!["subset", "verify", "--collection", "a"], "--children-collection"),
            (vec!["subset", "analyze"], "--children-collection"),
            (vec!["subset", "analyze", "--children-collection", "a"], "--parent"),
            ([vec!["subset", "verify"], REVIEWS[..10].to_vec()].concat(), "--order"),
            (vec!["embedded", "analyze", "--source", "a"], "--reference"),
            (
                vec!["embedded", "plan", "--collection", "a", "--children", "c"],
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
        let subset = || [vec!["subset"], REVIEWS[..10].to_vec()].concat();
        let outlier = || vec!["outlier", "--collection", "a"];
        let embedded = || vec!["embedded", "--collection", "a", "--children", "c"];
        for (arguments, text) in [
            ([subset(), vec!["--order", "-a.b", "verify"]].concat(), "--order: "),
            ([subset(), vec!["--order", "-", "verify"]].concat(), "--order: "),
            (
                [subset(), vec!["--order", "a", "--embed", "$x", "verify"]].concat(),
                "--embed: ",
            ),
            ([subset(), vec!["--version", "a.b", "verify"]].concat(), "--version: "),
            (
                [
                    subset(),
                    vec!["--children-collection", "product", "--order", "a", "verify"],
                ]
                .concat(),
                "--collection and --children-collection",
            ),
            ([outlier(), vec!["--array", "$a", "verify"]].concat(), "--array: "),
            (
                [outlier(), vec!["--array", "b", "--extras-collection", "a", "verify"]].concat(),
                "--collection and --extras-collection",
            ),
            ([embedded(), vec!["--sort", "a.b", "verify"]].concat(), "--sort: "),
            (
                [embedded(), vec!["--source", "a", "plan"]].concat(),
                "--collection and --source",
            ),
            (vec!["bucket", "--key", "a.b", "verify"], "--key: "),
        ] {
            ran(on(db).args(&arguments)).says(2, text);
        }
        let impossible = ran(on(db).args(["--db", "a b", "init", "a"]));
        impossible.says(3, "a b.a: ");
        impossible.says(3, "--db");
    })
    .await;
}

/// A missing collection has no findings, so it must not be reported as correct.
#[tokio::test]
async fn a_missing_collection_is_an_error() {
    testkit::run(async |db| {
        for arguments in [
            vec!["verify"],
            vec!["repair", "--dry-run"],
            vec!["analyze"],
            vec!["migrate"],
            vec!["migrate", "--back"],
            vec!["plan"],
        ] {
            bucket(db, &arguments).says(2, &format!("no collection {}.", db.database().name()));
        }
        for arguments in [
            vec!["verify"],
            vec!["repair", "--dry-run"],
            vec!["analyze"],
            vec!["plan", "--from", "collection"],
            vec!["migrate", "--from", "embedded"],
        ] {
            ran(on(db).arg("subset").args(REVIEWS).args(arguments)).says(2, "no collection");
        }
        let lists = ["outlier", "--collection", "sales", "--array", "a", "verify"];
        assert_eq!(ran(on(db).args(lists)).code, Some(2));
        let parents = ["embedded", "--collection", "patron", "--children", "a", "verify"];
        assert_eq!(ran(on(db).args(parents)).code, Some(2));
        for arguments in [
            vec!["verify"],
            vec!["repair", "--dry-run"],
            vec!["analyze"],
            vec!["plan"],
            vec!["migrate", "--back"],
            vec!["sweep"],
        ] {
            reference(db, &arguments).says(2, "no collection");
        }
    })
    .await;
}

#[tokio::test]
async fn the_error_for_an_invalid_profile_names_file_and_line() {
    testkit::run(async |db| {
        let folder = tempfile::tempdir().unwrap();
        let profile = write(folder.path(), "p.toml", "database = \"x\"\n[bucket]\npagesize = 3\n");
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
        let ran = bucket(db, &["migrate", "--json"]);
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

#[tokio::test]
async fn the_error_for_a_non_empty_target_names_the_option() {
    testkit::run(async |db| {
        fill(db, 1, 5).await;
        insert(db, "trades", [doc! { "_id": "x" }]).await;
        bucket(db, &["migrate"]).says(1, "--allow-non-empty-target");
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
        program.env("MONGODB_URI", uri);
        let ran = ran(program
            .args(&connection)
            .args(["--db", "x", "bucket", "verify"])
            .args(BUCKETS));
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
    for command in [
        "",
        "bucket",
        "bucket migrate",
        "bucket shard",
        "outlier migrate",
        "outlier repair",
        "subset verify",
        "embedded migrate",
        "reference analyze",
        "reference migrate",
        "reference repair",
        "init",
    ] {
        ran(program().args(command.split_whitespace()).arg("--help"))
            .ok()
            .fits_80_columns();
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
