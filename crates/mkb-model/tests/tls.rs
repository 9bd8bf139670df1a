//! Calls over TLS: a certificate that the system trusts is taken, another is not, and sees no key.

mod support;

use std::process::Command;
use std::sync::Arc;

use mkb_model::Cancel;
use mkb_model::outcome::OutcomeKind;
use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use support::dialect::all;
use support::{Answer, Ending, Server, Setup, ask, minutes};
use tokio_rustls::TlsAcceptor;

/// Where the child of the test finds the server.
const URL: &str = "MKB_TEST_TLS_URL";

#[test]
fn certificates_are_the_systems_and_a_stranger_sees_no_key() {
    if let Ok(url) = std::env::var(URL) {
        let client = Setup::default().client_at("openai-chat", &url);
        let call = ask(&client, minutes(2), &Cancel::new());
        assert_eq!(
            call.outcome.kind(),
            OutcomeKind::Answered,
            "{}",
            call.outcome
        );
        return;
    }

    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())
        .unwrap();
    let stream = all()[0].stream();
    let answer = Answer::stream(&stream, 100, Ending::Whole);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = Server::over(Some(acceptor), move |_, _| answer.clone());
    let url = format!("https://localhost:{}/v1", server.address.port());

    let client = Setup::default().client_at("openai-chat", &url);
    let call = ask(&client, minutes(2), &Cancel::new());
    assert_eq!(call.outcome.kind(), OutcomeKind::ProviderDown);
    assert!(
        call.outcome.to_string().contains("certificate"),
        "{}",
        call.outcome
    );
    assert_eq!(call.entry.totals().cost_usd.total(), Some(0.0));
    assert_eq!(server.count(), 0);

    // The same in a process whose system trusts the certificate.
    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("cert.pem");
    std::fs::write(&trusted, cert.pem()).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "certificates_are_the_systems_and_a_stranger_sees_no_key",
        ])
        .env("SSL_CERT_FILE", &trusted)
        .env(URL, &url)
        .output()
        .unwrap();
    assert!(
        child.status.success(),
        "{}",
        String::from_utf8_lossy(&child.stdout)
    );
    assert_eq!(server.count(), 1);
}
