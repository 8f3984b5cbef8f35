//! Python environments of their own in `target/tools`: what the kits need, and the official SDK that a test runs.
//!
//! Everything is pinned, also what the pinned ones need, so that a run of today can be repeated.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::bail;

use crate::ci::run_command;
use crate::tools::{self, Package};

/// Tells the tests where the Python with the SDK is.
pub const A2A_SDK: &str = "CODEX_BRIDGE_A2A_PYTHON";

/// Debian's Python comes without what makes environments.
const VENV: Package = Package {
    program: "python3 -m venv",
    versions: None,
    setting: None,
    package: "python3-venv",
    why: "environments for the A2A kits and SDK",
};

/// The official SDK and all that it needs.
const SDK: &str = "a2a-sdk==1.3.0 aiologic==0.17.1 annotated-types==0.8.0 anyio==4.16.0 certifi==2026.10.18 \
cffi==2.1.1 charset-normalizer==3.5.2 cryptography==50.0.2 culsans==0.11.0 google-api-core==2.44.0 \
google-auth==2.62.2 googleapis-common-protos==1.76.0 h11==0.16.0 httpcore==1.0.9 httpx==0.28.1 idna==3.20 \
json-rpc==1.15.0 opentelemetry-api==1.45.2 packaging==26.3 proto-plus==1.29.0 protobuf==7.36.2 pyasn1==0.6.5 \
pyasn1_modules==0.4.2 pycparser==3.12 pydantic==2.14.3 pydantic_core==2.50.4 requests==2.34.2 sniffio==1.3.1 \
typing-inspection==0.4.5 typing_extensions==4.16.0 urllib3==2.8.0 wrapt==2.5.2";

/// What both kits need; they name no versions themselves.
const KIT: &str = "anyio==4.16.0 attrs==26.1.0 cachebox==5.2.3 certifi==2026.10.18 cffi==2.1.1 \
charset-normalizer==3.5.2 cryptography==50.0.2 deepdiff==9.1.0 gherkin-official==42.0.1 \
googleapis-common-protos==1.76.0 grpcio==1.85.1 grpcio-tools==1.85.1 h11==0.16.0 httpcore==1.0.9 httpx==0.28.1 \
idna==3.20 iniconfig==2.3.1 Jinja2==3.1.6 jsonschema==4.26.0 jsonschema-specifications==2025.9.1 MarkupSafe==3.0.4 \
orderly-set==5.5.0 packaging==26.3 pluggy==1.7.0 protobuf==7.36.2 pycparser==3.12 Pygments==2.21.0 \
pyOpenSSL==26.4.0 pytest==9.2.0 pytest-asyncio==1.4.1.post1 pytest-html==4.2.0 pytest-json-report==1.5.0 \
pytest-metadata==3.1.1 python-dotenv==1.2.4 PyYAML==6.0.3 referencing==0.37.0 requests==2.34.2 responses==0.26.3 \
rpds-py==2026.9.1 typing_extensions==4.16.0 urllib3==2.8.0";

/// The Python of the kits, installed if need be.
pub(super) fn kit(tools: &Path) -> anyhow::Result<PathBuf> {
    environment(&tools.join("a2a-kit"), KIT)
}

/// The Python that has the official SDK, installed if need be.
///
/// # Errors
///
/// There is no Python 3.10 or newer that can make environments, or pip failed.
pub fn sdk(tools: &Path) -> anyhow::Result<PathBuf> {
    environment(&tools.join("a2a-sdk"), SDK)
}

/// A Python environment at this place, with these packages and no others.
pub(crate) fn environment(place: &Path, packages: &str) -> anyhow::Result<PathBuf> {
    let (python, whole) = (place.join("bin/python"), place.join("packages.txt"));
    if fs::read_to_string(&whole).is_ok_and(|found| found == packages) && python.exists() {
        return Ok(python);
    }
    can_make_environments()?;
    eprintln!("installing Python packages into {}, once", place.display());
    let mut venv = Command::new("python3");
    run_command(venv.args(["-m", "venv", "--clear"]).arg(place))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps"])
        .arg("--disable-pip-version-check")
        .args(packages.split_whitespace());
    run_command(&mut pip)?;
    // Written last: what has it is whole.
    fs::write(whole, packages)?;
    Ok(python)
}

fn can_make_environments() -> anyhow::Result<()> {
    let able = || {
        let mut probe = Command::new("python3");
        probe.args([
            "-c",
            "import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 10))",
        ]);
        let said = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
        said.is_ok_and(|status| status.success())
    };
    if able() {
        return Ok(());
    }
    tools::install(&[&VENV])?;
    if able() {
        Ok(())
    } else {
        bail!("python3 is older than 3.10, which the A2A SDK and kits need")
    }
}
