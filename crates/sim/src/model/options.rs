//! How a scripted model is set up, and the config.toml that points Codex at it.
//! What it answers is not here: the messages themselves say that (`script`).
//! Nor are the flags that keep Codex off the network: those are its starter's.

use std::time::Duration;

use serde_json::Value;

use super::quota::Quota;

/// How to set up a scripted model.
#[derive(Debug, Clone)]
pub struct Options {
    /// Port on 127.0.0.1; 0 picks a free one. There is no way to listen elsewhere.
    pub port: u16,
    /// The model name put into Codex's config. Codex warns about a name it does not know;
    /// that of a model it knows changes the tools it offers (`apply_patch` for one).
    pub model: String,
    /// How often Codex repeats a request that got an HTTP error.
    pub request_max_retries: u32,
    /// How often Codex repeats a request whose stream broke.
    pub stream_max_retries: u32,
    /// How long Codex waits for the next event of a stream; a `hold:` must end before it.
    pub stream_idle_timeout: Duration,
    /// Answer 401 to a request without an `Authorization` header.
    pub require_auth: bool,
    /// The environment variable from which Codex takes the key it sends.
    pub env_key: Option<String>,
    /// How long the `wait_…` functions wait before they give up with an error.
    pub patience: Duration,
    /// The limit of the account, told with every answer; none without it.
    pub quota: Option<Quota>,
    /// Obey the message ids of the official A2A kits, where the bridge names one.
    pub kit: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            model: "mock-model".to_owned(),
            request_max_retries: 1,
            stream_max_retries: 1,
            stream_idle_timeout: Duration::from_secs(60),
            require_auth: false,
            env_key: None,
            patience: Duration::from_secs(60),
            quota: None,
            kit: false,
        }
    }
}

/// The header by which a CODEX_HOME says its name.
pub(super) const HOME_HEADER: &str = "x-codex-home";

/// The text of a `CODEX_HOME/config.toml` whose only provider is the model at `base_url`. A named home says its name with
/// every request.
pub(super) fn codex_config(options: &Options, base_url: &str, home: Option<&str>) -> String {
    let mut text = format!(
        "model = {model}\n\
         model_provider = \"mock\"\n\
         \n\
         [model_providers.mock]\n\
         name = \"mock\"\n\
         base_url = {base_url}\n\
         wire_api = \"responses\"\n\
         request_max_retries = {request}\n\
         stream_max_retries = {stream}\n\
         stream_idle_timeout_ms = {idle}\n",
        model = quoted(&options.model),
        base_url = quoted(base_url),
        request = options.request_max_retries,
        stream = options.stream_max_retries,
        idle = options.stream_idle_timeout.as_millis(),
    );
    if let Some(key) = &options.env_key {
        text.push_str(&format!("env_key = {}\n", quoted(key)));
    }
    if let Some(home) = home {
        text.push_str(&format!(
            "http_headers = {{ {HOME_HEADER} = {} }}\n",
            quoted(home)
        ));
    }
    text
}

/// A JSON string is also a TOML basic string.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_names_provider_and_limits() {
        let options = Options {
            model: "a \"quoted\" name".to_owned(),
            stream_max_retries: 7,
            env_key: Some("MOCK_KEY".to_owned()),
            ..Options::default()
        };
        let text = codex_config(&options, "http://127.0.0.1:1/v1", Some("n1"));
        assert!(text.starts_with("model = \"a \\\"quoted\\\" name\"\nmodel_provider = \"mock\"\n"));
        assert!(text.contains("base_url = \"http://127.0.0.1:1/v1\"\n"));
        assert!(text.contains("stream_max_retries = 7\nstream_idle_timeout_ms = 60000\n"));
        assert!(
            text.ends_with("env_key = \"MOCK_KEY\"\nhttp_headers = { x-codex-home = \"n1\" }\n")
        );
    }
}
