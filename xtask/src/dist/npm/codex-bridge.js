#!/usr/bin/env node
// Starts the program of this platform. Node can't become another program, so it stays as its parent: it passes signals
// on and ends as it ended. `codex-bridge service install` writes the program's own path, and no Node runs there.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { constants } from "node:os";
import { dirname, join } from "node:path";

const platform = `${process.platform}-${process.arch}`;
const name = `codex-bridge-${platform}`;
let manifest;
try {
  manifest = createRequire(import.meta.url).resolve(`${name}/package.json`);
} catch {
  console.error(
    `codex-bridge: there is no program for ${platform} here. npm installs it as the optional package ${name}: ` +
      "install again without --omit=optional; where there is no such package, build it with cargo.",
  );
  process.exit(1);
}
const child = spawn(join(dirname(manifest), "bin", "codex-bridge"), process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`codex-bridge: ${error.message}`);
  process.exit(1);
});
// A terminal sends Ctrl-C to both of us; a second one would cut short what the first one asked for.
const fromTerminal = process.stdin.isTTY ? ["SIGINT", "SIGQUIT"] : [];
for (const signal of ["SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => fromTerminal.includes(signal) || child.kill(signal));
}
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
