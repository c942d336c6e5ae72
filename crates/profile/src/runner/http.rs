//! Asks a local server whether it is ready.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long one question may take: a server that starts may accept and not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// GETs an `http://` address; the error says what came instead of a 2xx answer.
pub(super) fn get(address: &str) -> Result<(), String> {
    let rest = address.strip_prefix("http://").ok_or("it is not an http address")?;
    let (host, path) = match rest.find('/') {
        Some(at) => (&rest[..at], &rest[at..]),
        None => (rest, "/"),
    };
    let port = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let peer = port
        .to_socket_addrs()
        .map_err(|e| format!("{host}: {e}"))?
        .next()
        .ok_or_else(|| format!("{host} has no address"))?;
    let talk = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&peer, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // In one write, and so in one segment: a server that reads only once sees all of it.
        let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut head = Vec::new();
        // The status line is all that counts.
        stream.take(256).read_to_end(&mut head)?;
        Ok(head)
    };
    let head = talk().map_err(|e| format!("{host}: {e}"))?;
    let head = String::from_utf8_lossy(&head);
    let line = head.lines().next().unwrap_or_default();
    match line.split_whitespace().nth(1) {
        Some(status) if line.starts_with("HTTP/") && status.starts_with('2') => Ok(()),
        _ if line.is_empty() => Err(format!("{host} answered nothing")),
        _ => Err(format!("{host} answered '{line}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    /// The address of a server that answers one connection with this.
    fn server(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/ready", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // To the blank line: closing with a part of it unread would reset the connection.
            let request: Vec<String> = BufReader::new(&stream)
                .lines()
                .map(Result::unwrap)
                .take_while(|line| !line.is_empty())
                .collect();
            assert_eq!(request[0], "GET /ready HTTP/1.0");
            stream.write_all(answer.as_bytes()).unwrap();
        });
        address
    }

    #[test]
    fn only_a_2xx_answer_counts() {
        assert_eq!(get(&server("HTTP/1.1 204 No Content\r\n\r\n")), Ok(()));
        let e = get(&server("HTTP/1.1 503 Starting\r\n\r\n")).unwrap_err();
        assert!(e.contains("503 Starting"), "{e}");
        assert!(get(&server("")).unwrap_err().contains("nothing"));
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(get(&format!("http://{unused}/")).unwrap_err().contains("refused"));
    }
}
