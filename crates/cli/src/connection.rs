//! The way to the server. Nothing here prints a password, or a connection string that may hold one.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use clap::Args;
use mongodb::error::ErrorKind;
use mongodb::options::{ClientOptions, Credential, Tls, TlsOptions};
use mongodb::{Client, Database};

use crate::failure::{Exit, Failure};
use crate::profile::Profile;

const LOCAL: &str = "mongodb://127.0.0.1:27017/";

/// How to connect, as with MongoDB's own tools.
#[derive(Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// The connection string, mongodb:// or mongodb+srv://, with its options, such as tls=true. Other users of this
    /// machine can see it among the processes: better set MONGODB_URI. [default: mongodb://127.0.0.1:27017/]
    #[arg(
        long,
        global = true,
        env = "MONGODB_URI",
        hide_env_values = true,
        value_name = "URI",
        hide_default_value = true
    )]
    uri: Option<String>,
    /// The user, if the connection string names none.
    #[arg(long, global = true, value_name = "NAME")]
    username: Option<String>,
    /// The file whose first line is the password. Or set MONGODB_PASSWORD.
    #[arg(long, global = true, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The database that knows the user. [default: admin]
    #[arg(long, global = true, value_name = "NAME")]
    auth_source: Option<String>,
    /// Connects by TLS.
    #[arg(long, global = true)]
    tls: bool,
    /// The certificates of the authorities that are trusted, a PEM file.
    #[arg(long, global = true, value_name = "FILE")]
    tls_ca_file: Option<PathBuf>,
    /// The client's certificate and key, a PEM file.
    #[arg(long, global = true, value_name = "FILE")]
    tls_certificate_key_file: Option<PathBuf>,
}

impl Connection {
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        let uri = self.uri.as_deref().filter(|uri| !uri.is_empty()).unwrap_or(LOCAL);
        let mut options = ClientOptions::parse(uri).await.map_err(|error| refused(uri, &error))?;
        options.app_name.get_or_insert_with(|| "mongo-patterns".to_owned());
        self.set_user(&mut options)?;
        self.set_tls(&mut options)?;
        Client::with_options(options).map_err(|error| match *error.kind {
            ErrorKind::InvalidTlsConfig { .. } => Failure::usage(format!(
                "a file of --tls-ca-file, --tls-certificate-key-file or the connection string cannot be used: {}",
                error.kind
            )),
            _ => refused(uri, &error),
        })
    }

    fn set_user(&self, options: &mut ClientOptions) -> Result<(), Failure> {
        let Some(user) = &self.username else {
            if self.password_file.is_some() || self.auth_source.is_some() {
                return Err(Failure::usage("--password-file and --auth-source go with --username"));
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
        // The driver would say neither the option nor the file.
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

/// Does not show the connection string.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// The database that an option names, or the profile, or the connection string.
pub(crate) fn database(client: &Client, option: Option<&str>, profile: &Profile) -> Result<Database, Failure> {
    match option.or(profile.database.as_deref()) {
        Some(name) => Ok(client.database(name)),
        None => client.default_database().ok_or_else(|| {
            Failure::usage(
                "--db is missing: pass it, set `database` in the profile, or name it in the connection string",
            )
        }),
    }
}

/// The driver's text quotes parts of the connection string, so it is shown only where that holds no password.
fn refused(uri: &str, error: &mongodb::error::Error) -> Failure {
    const WHERE: &str = "the connection string (--uri or MONGODB_URI)";
    if !uri.starts_with("mongodb://") && !uri.starts_with("mongodb+srv://") {
        return Failure::usage(format!("{WHERE} must start with mongodb:// or mongodb+srv://"));
    }
    if matches!(*error.kind, ErrorKind::DnsResolve { .. }) {
        return Failure::new(
            Exit::Server,
            format!("the host of {WHERE} cannot be found by DNS: check its name, and the network"),
        );
    }
    if uri.contains('@') {
        return Failure::usage(format!(
            "{WHERE} cannot be used: check hosts and options; in user and password the characters : / ? # [ ] @ % must be percent-encoded, such as %40 for @"
        ));
    }
    Failure::usage(format!("{WHERE} cannot be used: {}", error.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bad_connection_string_keeps_its_password() {
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
