//! `console`: a one-time code for the page, opened in the browser or printed for a phone.

use super::api::ApiClient;
use super::output::{print, print_json, say};
use crate::cli::ConsoleArgs;
use anyhow::Context;
use bridge_daemon::config::Environment;
use bridge_daemon::term::escape_line;
use bridge_front::{LoginMade, NewLogin, Scope};
use bridge_host::start_detached;
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a phone may do: see, and decide what Codex asks.
const OF_PHONES: [Scope; 2] = [Scope::Read, Scope::Approve];
/// Opens an address in the person's own browser.
const OPENER: &str = "xdg-open";
/// The page that leads to the address, in the state directory.
const LEADING_PAGE: &str = "console.html";

pub(crate) async fn console(
    client: &ApiClient,
    args: ConsoleArgs,
    environment: &Environment,
    state_dir: &Path,
) -> anyhow::Result<ExitCode> {
    let made = log_in(client, args.phone, args.scopes).await?;
    if args.output.json {
        return print_json(&made, ExitCode::SUCCESS);
    }
    say(&remarks(&made));
    let address = address_of(&made, args.phone)?;
    if args.phone {
        return print(
            &format!("{}\n{}", picture(&address)?, escape_line(&address)),
            ExitCode::SUCCESS,
        );
    }
    if !args.no_open && io::stdout().is_terminal() && environment.has_display() {
        match open(&address, state_dir) {
            Ok(()) => say("Opening it in your browser; the address, should nothing happen:"),
            Err(error) => say(&format!(
                "No browser was opened ({error:#}): open this address yourself:"
            )),
        }
    }
    print(&escape_line(&address), ExitCode::SUCCESS)
}

/// An address that signs one browser in as the owner.
#[cfg(feature = "demo")]
pub(crate) async fn owner_address(client: &ApiClient) -> anyhow::Result<String> {
    let made = log_in(client, false, Vec::new()).await?;
    address_of(&made, false)
}

async fn log_in(
    client: &ApiClient,
    phone: bool,
    mut scopes: Vec<String>,
) -> anyhow::Result<LoginMade> {
    let usual: &[Scope] = if phone { &OF_PHONES } else { &Scope::OWNER };
    if scopes.is_empty() {
        scopes.extend(usual.iter().map(|scope| scope.as_str().to_owned()));
    }
    let label = if phone { "phone" } else { "browser" };
    let new = NewLogin {
        scopes,
        label: label.to_owned(),
        elsewhere: phone,
    };
    Ok(client.post("/v1/logins", Some(&new), None).await?)
}

fn address_of(made: &LoginMade, phone: bool) -> anyhow::Result<String> {
    let base = if phone { &made.public_url } else { &made.url };
    let base = base.as_ref().or(made.public_url.as_ref());
    let base = base.context("the daemon named no address of the console")?;
    Ok(format!("{base}#login={}", made.code))
}

fn remarks(made: &LoginMade) -> String {
    let scopes = made.scopes.join(", ");
    let summary = format!(
        "{} may {scopes}. Its code is good once, for 5 minutes.",
        made.name
    );
    match &made.remark {
        Some(remark) => format!("{summary}\n{remark}"),
        None => summary,
    }
}

/// Dark on light for the dark terminals that most people have; cameras read it either way.
fn picture(address: &str) -> anyhow::Result<String> {
    let code = QrCode::new(address).context("this address does not fit into a QR code")?;
    let mut picture = code.render::<Dense1x2>();
    Ok(picture
        .dark_color(Dense1x2::Light)
        .light_color(Dense1x2::Dark)
        .build())
}

/// Opens a private page that leads to the address: a code in the arguments of a process could be read by others.
fn open(address: &str, state_dir: &Path) -> anyhow::Result<()> {
    let page = leading_page(address, state_dir).context("write a page that leads there")?;
    let nowhere = File::create("/dev/null").context("open /dev/null")?;
    let args = [page.into_os_string()];
    start_detached(Path::new(OPENER), &args, nowhere).context(OPENER)?;
    Ok(())
}

fn leading_page(address: &str, state_dir: &Path) -> io::Result<PathBuf> {
    let address = address
        .replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;");
    // Such a file is 0600 from the beginning.
    let mut file = tempfile::NamedTempFile::new_in(state_dir)?;
    writeln!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\"><a href=\"{address}\">codex-bridge</a>"
    )?;
    let path = state_dir.join(LEADING_PAGE);
    file.persist(&path)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn leading_page_is_private_and_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let page = leading_page("http://x/\"><script>#login=1", dir.path()).unwrap();
        assert_eq!(page.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(page).unwrap();
        assert!(
            text.contains("url=http://x/&quot;>&lt;script>#login=1\""),
            "{text}"
        );
    }

    #[test]
    fn phone_addresses_fit_into_pictures() {
        let code = "0".repeat(68);
        let address = format!("https://bridge.tail1234.ts.net/console/#login=cbt_{code}");
        let picture = picture(&address).unwrap();
        let lines: Vec<&str> = picture.lines().collect();
        assert!(lines.len() < 40, "{}", lines.len());
        assert!(lines.iter().all(|line| line.chars().count() < 80));
    }
}
