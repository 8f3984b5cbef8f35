//! A server that speaks TLS, with an authority of its own, and its address on this machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::{MAINTENANCE, PostgresError, ROLE, Server, programs, text};

/// Makes two authorities, and a certificate for one name by the first of them, in a directory of the user that runs the
/// server, with a password. Arguments: the name. Standard output: the directory.
const MAKE: &str = include_str!("certificates.sh");

/// Authorities and a server's certificate.
#[derive(Debug)]
struct Certificates {
    directory: PathBuf,
}

impl Certificates {
    fn make(name: &str) -> Result<Self, PostgresError> {
        let mut command = programs::find()?.as_user("sh");
        command.args(["-c", MAKE, "certificates", name]);
        let made = command.stdin(Stdio::null()).output();
        let made = made.map_err(|source| PostgresError::Io {
            what: "cannot run `sh`, which is to make certificates",
            source,
        })?;
        if !made.status.success() {
            return Err(PostgresError::Refused {
                what: "to make certificates with `openssl`".to_owned(),
                said: text(&made.stderr),
            });
        }
        let directory = PathBuf::from(text(&made.stdout));
        Ok(Self { directory })
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        // It is in a temporary directory.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A server that takes connections over TLS alone, beside its unix socket.
#[derive(Debug)]
pub struct TlsServer {
    pub server: Server,
    certificates: Certificates,
    address: String,
    password: String,
}

impl TlsServer {
    /// With a certificate for this name.
    pub fn start(name: &str) -> Result<Self, PostgresError> {
        let certificates = Certificates::make(name)?;
        // All of 127.0.0.0/8 is this machine. With an address for each process nobody else has its port.
        let [_, high, middle, low] = std::process::id().to_be_bytes();
        let address = format!("127.{}.{middle}.{low}", 64 + (high & 63));
        let file = |name: &str| certificates.directory.join(name).display().to_string();
        let (certificate, key, hba) = (file("server.crt"), file("server.key"), file("hba"));
        let server = Server::start_with(&[
            ("listen_addresses", address.as_str()),
            ("ssl", "on"),
            ("ssl_cert_file", certificate.as_str()),
            ("ssl_key_file", key.as_str()),
            ("hba_file", hba.as_str()),
        ])?;
        let password = std::fs::read_to_string(certificates.directory.join("password"));
        let password = password.map_err(|source| PostgresError::Io {
            what: "cannot read the password of the server",
            source,
        })?;
        // The server reads it, so that it is on no command line.
        let file = file("password");
        let set = format!(
            "DO $$ BEGIN EXECUTE format('ALTER ROLE {ROLE} PASSWORD %L', pg_read_file('{file}')); END $$"
        );
        server.psql(MAINTENANCE, &set)?;
        Ok(Self {
            server,
            certificates,
            address,
            password,
        })
    }

    /// What it takes to enter over TLS.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }

    /// The authority that vouches for it.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.certificates.directory.join("authority.crt")
    }

    /// One that does not.
    #[must_use]
    pub fn stranger(&self) -> PathBuf {
        self.certificates.directory.join("stranger.crt")
    }

    /// The address of a database under a name of the server, which the authority is to vouch for.
    #[must_use]
    pub fn url_of(&self, database: &str, name: &str, authority: &Path) -> String {
        let (address, authority) = (&self.address, authority.display());
        let password = &self.password;
        format!(
            "postgres://{ROLE}:{password}@{name}/{database}?hostaddr={address}&sslmode=verify-full&sslrootcert={authority}"
        )
    }
}
