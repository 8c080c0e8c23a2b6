//! What Burn's traits ask for and what this crate writes itself, from the sources of both.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A function of a trait.
pub struct Function {
    pub name: String,
    /// The functions that the body of a provided one calls; nothing for a required one.
    pub default: Option<Vec<String>>,
}

/// The published crate of that name that this workspace is built with.
pub fn published(package: &str) -> PathBuf {
    let version = cargo(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("cargo says its host");
    // What only other platforms need was not downloaded.
    let metadata =
        cargo(&["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", host]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let found = packages.iter().find(|entry| entry["name"] == package);
    let manifest = found.unwrap_or_else(|| panic!("{package} is a dependency"))["manifest_path"].as_str();
    Path::new(manifest.unwrap()).parent().unwrap().to_path_buf()
}

/// What cargo prints.
fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    let output =
        command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo runs");
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// All Rust files below a directory.
pub fn files(directory: &Path) -> Vec<TokenStream> {
    let mut streams = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            streams.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            streams.push(text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        }
    }
    streams
}

/// The functions of every public trait, in their order.
pub fn traits(streams: &[TokenStream]) -> BTreeMap<String, Vec<Function>> {
    let mut traits = BTreeMap::new();
    for stream in streams {
        let tokens: Vec<_> = stream.clone().into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            if is_word(token, "trait")
                && let Some(TokenTree::Ident(name)) = tokens.get(index + 1)
                && let Some(body) = tokens[index..].iter().find_map(braces)
            {
                traits.insert(name.to_string(), functions(body));
            }
        }
    }
    traits
}

/// The functions that this crate writes for `name`, by `fn` or in a row of one of its macros.
pub fn implemented(streams: &[TokenStream], name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for stream in streams {
        let tokens: Vec<_> = stream.clone().into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            let rest = &tokens[index..];
            if is_word(token, "impl")
                && rest.get(1).is_some_and(|token| is_word(token, name))
                && let Some(body) = rest.iter().find_map(braces)
            {
                let inner: Vec<_> = body.into_iter().collect();
                for (index, token) in inner.iter().enumerate() {
                    match (token, inner.get(index + 1)) {
                        (TokenTree::Ident(word), Some(TokenTree::Ident(name))) if word == "fn" => {
                            found.insert(name.to_string());
                        }
                        (TokenTree::Punct(mark), Some(TokenTree::Group(rows))) if mark.as_char() == '!' => {
                            found.extend(words(rows.stream()).iter().map(Ident::to_string));
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    found
}

/// The functions of a trait's body.
fn functions(body: TokenStream) -> Vec<Function> {
    let tokens: Vec<_> = body.into_iter().collect();
    let mut functions = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if is_word(token, "fn")
            && let Some(TokenTree::Ident(name)) = tokens.get(index + 1)
        {
            let end = tokens[index..].iter().find(|token| {
                braces(token).is_some() || matches!(token, TokenTree::Punct(mark) if mark.as_char() == ';')
            });
            let default = end.and_then(braces).map(calls);
            functions.push(Function { name: name.to_string(), default });
        }
    }
    functions
}

/// The names of what a body calls as `path::name(..)` or `name(..)`, in their order, once each.
fn calls(body: TokenStream) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let tokens: Vec<_> = body.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => found.extend(calls(group.stream())),
            TokenTree::Ident(name) => {
                let mark = |ahead: usize, mark: char| matches!(tokens.get(index + ahead), Some(TokenTree::Punct(found)) if found.as_char() == mark);
                let after_path = index > 0
                    && matches!(&tokens[index - 1], TokenTree::Punct(mark) if mark.as_char() == ':');
                let called = matches!(tokens.get(index + 1), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
                let generic = mark(1, ':') && mark(2, ':') && mark(3, '<');
                let text = name.to_string();
                let lower = text.starts_with(|first: char| first.is_lowercase());
                if lower
                    && (generic || after_path && called)
                    && !["new", "from", "with_capacity"].contains(&text.as_str())
                {
                    found.push(text);
                }
            }
            _ => {}
        }
        if let (TokenTree::Ident(name), Some(TokenTree::Punct(mark))) = (token, tokens.get(index + 1))
            && mark.as_char() == '!'
            && ["unimplemented", "todo", "panic"].contains(&name.to_string().as_str())
        {
            found.push(format!("{name}!"));
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|name| seen.insert(name.clone()));
    found
}

/// All identifiers, at any depth.
fn words(stream: TokenStream) -> Vec<Ident> {
    let mut found = Vec::new();
    for token in stream {
        match token {
            TokenTree::Ident(word) => found.push(word),
            TokenTree::Group(group) => found.extend(words(group.stream())),
            _ => {}
        }
    }
    found
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

fn braces(token: &TokenTree) -> Option<TokenStream> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group.stream()),
        _ => None,
    }
}
