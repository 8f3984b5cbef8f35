//! `reload`: the daemon reads its configuration again, and says what came of it.

use super::api::ApiClient;
use super::show::{print, print_json};
use bridge_daemon::term::{self, escape};
use bridge_front::ReloadView;
use std::process::ExitCode;

/// Asks the daemon, and fails where the file can't be used.
pub(crate) async fn reload(client: &ApiClient, json: bool) -> ExitCode {
    let view = match client.reload().await {
        Ok(view) => view,
        Err(error) => {
            let error = client.expect_daemon().err().unwrap_or(error);
            term::complain(&escape(&error.to_string()));
            return ExitCode::FAILURE;
        }
    };
    let code = if view.ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    if json {
        print_json(&view, code)
    } else {
        print(escape(&words(&view)).trim_end(), code)
    }
}

fn words(view: &ReloadView) -> String {
    let mut words = match (&view.error, view.changed.as_slice()) {
        (Some(error), _) => {
            format!("nothing changed, the old configuration is in force: {error}\n")
        }
        (None, []) => "read again; nothing is different\n".to_owned(),
        (None, keys) => format!("in force from now on: {}\n", keys.join(" ")),
    };
    if !view.needs_restart.is_empty() {
        words.push_str(&format!(
            "restart the daemon for: {}\n",
            view.needs_restart.join(" ")
        ));
    }
    for warning in &view.warnings {
        words.push_str(&format!("warning: {warning}\n"));
    }
    words
}
