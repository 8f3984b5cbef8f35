//! An MCP server over stdio whose tools ask the user something, so that Codex asks its client: `form` sends a form,
//! `page` asks to visit an address, `plain` asks nothing. Each tool gives back what the user answered, as JSON.
//!
//! Its tools take `{"message": .., "schema": ..}` and fill in what is not given. For tests only; it speaks as much of
//! MCP as Codex needs from a server, and nothing else.

use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::process::ExitCode;

/// Longest line it reads; a longer one is nothing that Codex writes.
const MAX_LINE_BYTES: usize = 1024 * 1024;

/// The call that waits for the user, by the id of what we asked.
struct Waiting {
    asked: u64,
    call: Value,
}

#[derive(Default)]
struct Server {
    asked: u64,
    waiting: Vec<Waiting>,
}

impl Server {
    /// What one line makes us write.
    fn hear(&mut self, line: &str) -> Vec<Value> {
        let Ok(heard) = serde_json::from_str::<Value>(line) else {
            return Vec::new();
        };
        let id = heard.get("id").cloned();
        match (heard.get("method").and_then(Value::as_str), id) {
            (Some(method), Some(id)) => self.request(method, id, heard.get("params")),
            (None, Some(id)) => self.answered(&id, &heard),
            (Some(_) | None, None) => Vec::new(),
        }
    }

    fn request(&mut self, method: &str, id: Value, params: Option<&Value>) -> Vec<Value> {
        let result = match method {
            "initialize" => {
                let version = params.and_then(|params| params.get("protocolVersion"));
                json!({
                    "protocolVersion": version.unwrap_or(&json!("2025-06-18")),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "mcp-asker", "version": env!("CARGO_PKG_VERSION")},
                })
            }
            "tools/list" => json!({"tools": [tool("form"), tool("page"), tool("plain")]}),
            "tools/call" => return self.call(id, params.unwrap_or(&Value::Null)),
            "ping" => json!({}),
            _ => return vec![refusal(&id, "method not found")],
        };
        vec![json!({"jsonrpc": "2.0", "id": id, "result": result})]
    }

    fn call(&mut self, id: Value, params: &Value) -> Vec<Value> {
        let name = params.get("name").and_then(Value::as_str);
        let given = |key: &str| params.get("arguments").and_then(|given| given.get(key));
        let message = given("message").cloned();
        let message = message.unwrap_or_else(|| json!("Who are you?"));
        let asked = match name {
            Some("form") => {
                json!({"message": message, "requestedSchema": given("schema").cloned().unwrap_or_else(schema)})
            }
            Some("page") => json!({"mode": "url", "message": message, "elicitationId": "page-1",
                "url": "http://127.0.0.1:9/visit"}),
            Some("plain") => return vec![told(&id, "nothing was asked")],
            Some(_) | None => return vec![refusal(&id, "no such tool")],
        };
        self.asked += 1;
        self.waiting.push(Waiting {
            asked: self.asked,
            call: id,
        });
        let ask = json!({"jsonrpc": "2.0", "id": self.asked, "method": "elicitation/create", "params": asked});
        vec![ask]
    }

    fn answered(&mut self, id: &Value, heard: &Value) -> Vec<Value> {
        let found = self
            .waiting
            .iter()
            .position(|waiting| id.as_u64() == Some(waiting.asked));
        let Some(at) = found else {
            return Vec::new();
        };
        let call = self.waiting.remove(at).call;
        let answer = heard.get("result").or_else(|| heard.get("error"));
        let answer = answer.map_or_else(|| "nothing".to_owned(), Value::to_string);
        vec![told(&call, &answer)]
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name"},
            "count": {"type": "integer", "minimum": 1},
        },
        "required": ["name"],
    })
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "asks the user", "inputSchema": {"type": "object"}})
}

fn told(id: &Value, text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": content, "isError": false}})
}

fn refusal(id: &Value, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": message}})
}

fn main() -> ExitCode {
    let mut server = Server::default();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else {
            return ExitCode::FAILURE;
        };
        if line.len() > MAX_LINE_BYTES {
            return ExitCode::FAILURE;
        }
        for text in server.hear(&line) {
            if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_elicitation_returns_its_answer() {
        let mut server = Server::default();
        let call = json!({"id": 7, "method": "tools/call", "params": {"name": "form"}});
        let asked = server.hear(&call.to_string());
        assert_eq!(asked[0]["method"], "elicitation/create");
        assert_eq!(asked[0]["params"]["requestedSchema"], schema());
        let answer = json!({"id": asked[0]["id"], "result": {"action": "decline"}});
        let told = server.hear(&answer.to_string());
        assert_eq!(told[0]["id"], 7);
        assert_eq!(
            told[0]["result"]["content"][0]["text"],
            r#"{"action":"decline"}"#
        );
        assert_eq!(server.hear(&answer.to_string()), Vec::<Value>::new());
    }
}
