//! Deployments with certificates or passwords, and unreachable addresses. No password is ever printed.

use std::path::Path;

use mongo_patterns_testkit::{Mongod, MongodOptions};
use mongodb::bson::{DateTime, doc};
use mongodb::options::{ClientOptions, Credential};
use mongodb::{Client, Database};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::support::*;

const PASSWORD: &str = "s3cret/:@%";
const SHORT_TIMEOUT: &str = "serverSelectionTimeoutMS=2000";

async fn fill_shop(shop: &Database) {
    let item = |n: i64| doc! { "_id": n, "customerId": n % 3, "date": DateTime::from_millis(SECOND * 1000) };
    insert_in(shop, "flat", (0..9).map(item)).await;
}

/// Runs a command that reads, with a connection string and connection options.
fn analyze(uri: &str, connection: &[&str], password: Option<&str>) -> Ran {
    let mut program = program();
    program.env("MONGODB_URI", uri);
    if let Some(password) = password {
        program.env("MONGODB_PASSWORD", password);
    }
    let analyze = ["bucket", "--flat", "flat", "--key", "customerId", "analyze"];
    let ran = ran(program.args(["--db", "shop"]).args(connection).args(analyze));
    for secret in ["s3cret", "wr0ng"] {
        assert!(!ran.err.contains(secret) && !ran.out.contains(secret), "{ran:?}");
    }
    ran
}

struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, "an authority");
        let key = KeyPair::generate().unwrap();
        Self {
            certificate: parameters.self_signed(&key).unwrap().pem(),
            issuer: Issuer::new(parameters, key),
        }
    }

    /// Returns a certificate for this machine, with its key.
    fn sign(&self) -> String {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut parameters = CertificateParams::new(names).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, "localhost");
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        certificate.pem() + &key.serialize_pem()
    }
}

/// Starts a server that accepts only TLS, and requires a certificate of the same authority.
async fn tls_server(ca: &str, key: &str) -> Mongod {
    let options = MongodOptions::new()
        .standalone()
        .argument("--tlsMode=preferTLS")
        .argument(format!("--tlsCAFile={ca}"))
        .argument(format!("--tlsCertificateKeyFile={key}"));
    let mongod = Mongod::start(options).await.unwrap();
    let plain = Client::with_uri_str(mongod.uri()).await.unwrap();
    fill_shop(&plain.database("shop")).await;
    let require = doc! { "setParameter": 1, "tlsMode": "requireTLS" };
    plain.database("admin").run_command(require).await.unwrap();
    mongod
}

#[tokio::test]
async fn certificates_come_from_options_or_the_connection_string() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| write(folder.path(), name, text);
    let authority = Authority::new();
    let ca = file("ca.pem", &authority.certificate);
    let other = file("other.pem", &Authority::new().certificate);
    let client = file("client.pem", &authority.sign());
    let mongod = tls_server(&ca, &file("server.pem", &authority.sign())).await;
    let uri = format!("{}&{SHORT_TIMEOUT}", mongod.uri());

    let options = ["--tls-ca-file", &ca, "--tls-certificate-key-file", &client];
    analyze(&uri, &options, None).ok().shows(["9 items in 3 lists"]);
    let in_uri = format!("{uri}&tls=true&tlsCAFile={ca}&tlsCertificateKeyFile={client}");
    analyze(&in_uri, &[], None).ok();

    for options in [
        vec![],
        vec!["--tls"],
        vec!["--tls-ca-file", &ca],
        vec!["--tls-ca-file", &other, "--tls-certificate-key-file", &client],
    ] {
        let ran = analyze(&uri, &options, None);
        ran.says(3, "--uri");
        ran.says(3, "--tls-ca-file");
    }
    let missing = Path::new(&ca).with_file_name("none.pem");
    for option in ["--tls-ca-file", "--tls-certificate-key-file"] {
        let ran = analyze(&uri, &[option, missing.to_str().unwrap()], None);
        ran.says(2, &format!("{option} "));
        ran.says(2, "none.pem");
    }
    let no_pem = file("no.pem", "nothing");
    analyze(&uri, &["--tls-certificate-key-file", &no_pem], None).says(2, "--tls-certificate-key-file");
}

/// Starts a replica set with the user `joe`, who can read and write `shop`.
async fn auth_server(folder: &Path) -> Mongod {
    let key = write(folder, "key", "c2VjcmV0");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let options = MongodOptions::new().argument("--keyFile").argument(key);
    let mongod = Mongod::start(options).await.unwrap();
    let plain = Client::with_uri_str(mongod.uri()).await.unwrap();
    let root = doc! { "createUser": "root", "pwd": PASSWORD, "roles": ["root"] };
    plain.database("admin").run_command(root).await.unwrap();
    let roles = vec![doc! { "role": "readWrite", "db": "shop" }];
    let joe = doc! { "createUser": "joe", "pwd": PASSWORD, "roles": roles };
    let admin = client(&mongod, "root").await.database("admin");
    admin.run_command(joe).await.unwrap();
    fill_shop(&client(&mongod, "joe").await.database("shop")).await;
    mongod
}

async fn client(mongod: &Mongod, user: &str) -> Client {
    let mut options = ClientOptions::parse(mongod.uri()).await.unwrap();
    let credential = Credential::builder()
        .username(user.to_owned())
        .password(PASSWORD.to_owned())
        .source("admin".to_owned());
    options.credential = Some(credential.build());
    Client::with_options(options).unwrap()
}

#[tokio::test]
async fn a_password_comes_from_a_file_the_environment_or_the_connection_string_and_is_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let mongod = auth_server(folder.path()).await;
    let uri = format!("{}&{SHORT_TIMEOUT}", mongod.uri());
    let with_user = |password: &str| uri.replace("//", &format!("//joe:{password}@"));
    let encoded = with_user("s3cret%2F%3A%40%25");
    let right = write(folder.path(), "right.txt", &format!("{PASSWORD}\n"));
    let wrong = write(folder.path(), "wrong.txt", "wr0ng");
    let joe = ["--username", "joe"];

    let by_file = |file: &'static str| [joe.as_slice(), &["--password-file", file]].concat();
    let (right, wrong): (&str, &str) = (right.leak(), wrong.leak());
    for ran in [
        analyze(&encoded, &[], None),
        analyze(&uri, &joe, Some(PASSWORD)),
        analyze(&uri, &by_file(right), None),
        // No option names a user, so the password of the environment is not used.
        analyze(&encoded, &["--json"], Some("wr0ng")),
    ] {
        ran.ok();
    }
    for ran in [
        analyze(&with_user("wr0ng"), &[], None),
        analyze(&uri, &joe, Some("wr0ng")),
        analyze(&uri, &by_file(wrong), None),
        analyze(&with_user("wr0ng"), &["--json"], None),
    ] {
        ran.says(3, "check user, password and --auth-source");
        assert!(!ran.err.contains("joe"), "{}", ran.err);
    }
    let other_source = [joe.as_slice(), &["--auth-source", "shop"]].concat();
    analyze(&uri, &other_source, Some(PASSWORD)).says(3, "--auth-source");
    analyze(&uri, &[], None).says(3, "--username");
    analyze(&uri, &joe, None).says(2, "--password-file");
    analyze(&uri, &by_file("none.txt"), None).says(2, "--password-file none.txt");
    // The role `readWrite` suffices for all commands that write, including those that inspect operations of the server.
    let product = |id: i32| doc! { "_id": id, "reviews": [{ "review_id": 1, "date": id }] };
    let shop = client(&mongod, "joe").await.database("shop");
    insert_in(&shop, "product", (0..9).map(product)).await;
    let mut migrate = program();
    migrate.env("MONGODB_URI", &encoded).args(["--db", "shop", "subset"]);
    ran(migrate.args(REVIEWS).args(["migrate", "--from", "embedded"])).ok();
    // Typical mistakes in a connection string.
    for uri in [
        with_user(PASSWORD),
        with_user("s3cret@"),
        encoded.replace("mongodb:", "mongo:"),
    ] {
        analyze(&uri, &[], None).says(2, "--uri or MONGODB_URI");
    }
}

#[test]
fn the_error_for_an_unreachable_address_names_the_option() {
    for address in ["127.0.0.1:1", "host.invalid"] {
        let uri = format!("mongodb://joe:s3cret@{address}/?{SHORT_TIMEOUT}");
        analyze(&uri, &[], None).says(3, "--uri or MONGODB_URI");
    }
}

#[test]
fn the_error_for_an_unknown_seed_list_names_the_option() {
    let no_records = analyze("mongodb+srv://joe:s3cret@cluster.mongo-patterns.invalid/", &[], None);
    no_records.says(3, "--uri or MONGODB_URI");
    no_records.says(3, "DNS");
    analyze("mongodb+srv://joe:s3cret@a.b.invalid:27017/", &[], None).says(2, "--uri or MONGODB_URI");
}
