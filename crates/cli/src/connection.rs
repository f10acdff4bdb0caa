//! The connection to the server. Nothing here prints a password, or a connection string that can contain one.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mongodb::bson::oid::ObjectId;
use mongodb::error::ErrorKind;
use mongodb::options::{ClientOptions, Credential, DriverInfo, Tls, TlsOptions};
use mongodb::{Client, Database};

use crate::failure::{Exit, Failure};
use crate::profile::Profile;

/// How long a command looks for a server, unless the connection string says otherwise.
const SERVER_SELECTION_TIMEOUT: Duration = Duration::from_secs(5);

const LOCAL: &str = "mongodb://127.0.0.1:27017/";
const WHERE: &str = "the connection string (--uri or MONGODB_URI)";

/// The connection options, like those of MongoDB's own tools.
#[derive(Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// The connection string, mongodb:// or mongodb+srv://, with its options, such as tls=true. Other users of this
    /// machine can see it in the list of processes; prefer MONGODB_URI. [default: mongodb://127.0.0.1:27017/]
    #[arg(
        long,
        global = true,
        env = "MONGODB_URI",
        hide_env_values = true,
        value_name = "URI",
        hide_default_value = true
    )]
    uri: Option<String>,
    /// The user, if the connection string does not contain one.
    #[arg(long, global = true, value_name = "NAME")]
    username: Option<String>,
    /// The file whose first line is the password. Alternatively, set MONGODB_PASSWORD.
    #[arg(long, global = true, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The database in which the user is defined. [default: admin]
    #[arg(long, global = true, value_name = "NAME")]
    auth_source: Option<String>,
    /// Connects with TLS.
    #[arg(long, global = true)]
    tls: bool,
    /// The PEM file with the trusted certificate authorities.
    #[arg(long, global = true, value_name = "FILE")]
    tls_ca_file: Option<PathBuf>,
    /// The PEM file with the client's certificate and key.
    #[arg(long, global = true, value_name = "FILE")]
    tls_certificate_key_file: Option<PathBuf>,
}

impl Connection {
    /// Returns a client, and the id by which the server lists its operations.
    pub(crate) async fn connect(&self) -> Result<(Client, String), Failure> {
        let uri = self.uri.as_deref().filter(|uri| !uri.is_empty()).unwrap_or(LOCAL);
        let mut options = parse(uri).await?;
        let id = ObjectId::new().to_hex();
        let info = DriverInfo::builder().name("mongo-patterns").version(id.clone());
        options.driver_info = Some(info.build());
        self.set_user(&mut options)?;
        self.set_tls(&mut options)?;
        let client = Client::with_options(options).map_err(|error| match *error.kind {
            ErrorKind::InvalidTlsConfig { .. } => Failure::usage(format!(
                "a file of --tls-ca-file, --tls-certificate-key-file or the connection string is invalid: {}",
                error.kind
            )),
            _ => refused(uri, &error),
        })?;
        Ok((client, id))
    }

    fn set_user(&self, options: &mut ClientOptions) -> Result<(), Failure> {
        let Some(user) = &self.username else {
            if self.password_file.is_some() || self.auth_source.is_some() {
                return Err(Failure::usage("--password-file and --auth-source require --username"));
            }
            return Ok(());
        };
        let password = match &self.password_file {
            Some(file) => {
                let failed = |error| Failure::usage(format!("--password-file {}: {error}", file.display()));
                let text = fs::read_to_string(file).map_err(failed)?;
                text.lines().next().unwrap_or_default().to_owned()
            }
            None => std::env::var("MONGODB_PASSWORD").map_err(|_| {
                Failure::usage("--username needs a password: set MONGODB_PASSWORD, or pass --password-file")
            })?,
        };
        let mut credential = options.credential.take().unwrap_or_default();
        credential.username = Some(user.clone());
        credential.password = Some(password);
        if let Some(source) = &self.auth_source {
            credential.source = Some(source.clone());
        }
        options.credential = Some(with_source(credential));
        Ok(())
    }

    fn set_tls(&self, options: &mut ClientOptions) -> Result<(), Failure> {
        let files = [
            ("--tls-ca-file", &self.tls_ca_file),
            ("--tls-certificate-key-file", &self.tls_certificate_key_file),
        ];
        // The driver's error names neither the option nor the file.
        for (option, file) in files {
            if let Some(file) = file {
                let failed = |error| Failure::usage(format!("{option} {}: {error}", file.display()));
                fs::read(file).map_err(failed)?;
            }
        }
        if !self.tls && files.iter().all(|(_, file)| file.is_none()) {
            return Ok(());
        }
        let mut tls = match options.tls.take() {
            Some(Tls::Enabled(tls)) => tls,
            _ => TlsOptions::default(),
        };
        if let Some(file) = &self.tls_ca_file {
            tls.ca_file_path = Some(file.clone());
        }
        if let Some(file) = &self.tls_certificate_key_file {
            tls.cert_key_file_path = Some(file.clone());
        }
        options.tls = Some(Tls::Enabled(tls));
        Ok(())
    }
}

fn with_source(mut credential: Credential) -> Credential {
    credential.source.get_or_insert_with(|| "admin".to_owned());
    credential
}

/// Omits the connection string.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

async fn parse(uri: &str) -> Result<ClientOptions, Failure> {
    let options = ClientOptions::parse(uri).await;
    let mut options = options.map_err(|error| refused(uri, &error))?;
    options.app_name.get_or_insert_with(|| "mongo-patterns".to_owned());
    options.server_selection_timeout.get_or_insert(SERVER_SELECTION_TIMEOUT);
    Ok(options)
}

/// Returns the database of the option, else of the profile, else of the connection string.
pub(crate) fn database(client: &Client, option: Option<&str>, profile: &Profile) -> Result<Database, Failure> {
    match option.or(profile.database.as_deref()) {
        Some(name) => Ok(client.database(name)),
        None => client.default_database().ok_or_else(|| {
            Failure::usage(
                "--db is missing: pass it, set `database` in the profile, or add it to the connection string",
            )
        }),
    }
}

/// Hides the driver's text if the connection string can contain a password, because the text quotes parts of it.
fn refused(uri: &str, error: &mongodb::error::Error) -> Failure {
    if !uri.starts_with("mongodb://") && !uri.starts_with("mongodb+srv://") {
        return Failure::usage(format!("{WHERE} must start with mongodb:// or mongodb+srv://"));
    }
    if matches!(*error.kind, ErrorKind::DnsResolve { .. }) {
        return Failure::new(
            Exit::Server,
            format!("DNS cannot resolve the host of {WHERE}: check its name and the network"),
        );
    }
    if uri.contains('@') {
        return Failure::usage(format!(
            "{WHERE} is invalid: check hosts and options; in user and password the characters : / ? # [ ] @ % must be percent-encoded, such as %40 for @"
        ));
    }
    Failure::usage(format!("{WHERE} is invalid: {}", error.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_error_for_an_invalid_connection_string_hides_the_password() {
        for uri in [
            "mongodb://joe:s3cret/word@host/",
            "mongodb://joe:s3cret@host:port/",
            "mongodb://joe:s3cret@host/?tls=s3cret",
            "postgres://joe:s3cret@host/",
        ] {
            let connection = Connection {
                uri: Some(uri.to_owned()),
                username: None,
                password_file: None,
                auth_source: None,
                tls: false,
                tls_ca_file: None,
                tls_certificate_key_file: None,
            };
            let failure = connection.connect().await.map(|_| ()).unwrap_err();
            assert_eq!(failure.exit.code(), 2);
            assert!(
                !failure.text.contains("s3cret") && !failure.text.contains("word@"),
                "{}",
                failure.text
            );
        }
    }
}
