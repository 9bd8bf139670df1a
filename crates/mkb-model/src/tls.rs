//! TLS by rustls: the system's certificates, or Mozilla's where the system has none.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

/// The configuration of every connection. `SSL_CERT_FILE` and `SSL_CERT_DIR` are heeded.
pub(crate) fn config() -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
