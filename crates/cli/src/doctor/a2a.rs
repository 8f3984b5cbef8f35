//! Where other agents call, and whether everybody may. Who they are is the daemon's to know: `peers list`.

use super::report::Check;
use bridge_daemon::config::{A2aAuthKey, Config};

/// What the check is called.
const A2A: (&str, &str) = ("a2a", "other agents (A2A)");

/// Looks at the configuration; nothing to say where nobody can call.
pub(super) fn check(config: &Config) -> Option<Check> {
    let (id, title) = A2A;
    let listen = config.http.listen.as_ref().filter(|_| config.a2a.enabled)?;
    let base = match &config.http.public_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => format!("http://{listen}"),
    };
    Some(match config.a2a.auth {
        A2aAuthKey::Tokens => Check::ok(
            id,
            title,
            format!(
                "agents with a token call {base}/a2a while the daemon runs; `codex-bridge peers add NAME` makes one"
            ),
        ),
        A2aAuthKey::None => Check::warn(
            id,
            title,
            format!("every program on this machine may call {base}/a2a without a token"),
            "take a2a.auth out of the configuration, unless a conformance kit needs it",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_where_agents_call() {
        let said = |text: &str| {
            let check = check(&toml::from_str(text).unwrap());
            check.map(|check| serde_json::to_value(check).unwrap())
        };
        assert_eq!(said(""), None);
        assert_eq!(
            said("http.listen = '127.0.0.1:1'\na2a.enabled = false"),
            None
        );
        let here = said("http.listen = '127.0.0.1:1'").unwrap();
        assert_eq!(here["status"], "ok");
        assert!(
            here["detail"]
                .as_str()
                .unwrap()
                .contains("http://127.0.0.1:1/a2a")
        );
        let open = said("http.listen = '127.0.0.1:1'\na2a.auth = 'none'").unwrap();
        assert_eq!(open["status"], "warn");
        let there = said("http.listen = '127.0.0.1:1'\nhttp.public_url = 'https://b.example/'");
        assert!(
            there.unwrap()["detail"]
                .as_str()
                .unwrap()
                .contains("https://b.example/a2a")
        );
    }
}
