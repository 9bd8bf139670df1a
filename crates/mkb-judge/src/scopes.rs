//! Which names a file binds where, so that a use of a builtin is told from one of the file's own names.
//!
//! Python decides this by function: a name that a function assigns anywhere is its own throughout,
//! and never a builtin. At the top of a file a name is looked up among the builtins as long as the
//! file has not bound it, so only what is bound before, and on every way, counts.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_text_size::{Ranged, TextSize};

/// The scopes around a place of a file.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    /// Names that a statement at the top of the file binds, and where it ends.
    module: HashMap<String, TextSize>,
    /// The names of the functions around, the outermost first.
    functions: Vec<HashSet<String>>,
}

impl Scopes {
    /// Those at the top of a file.
    pub fn of(body: &[Stmt]) -> Self {
        let mut module = HashMap::new();
        for stmt in body {
            let name = match stmt {
                Stmt::FunctionDef(function) => function.name.as_str(),
                Stmt::ClassDef(class) => class.name.as_str(),
                Stmt::Assign(assign) => match assign.targets.as_slice() {
                    [Expr::Name(name)] => name.id.as_str(),
                    _ => continue,
                },
                _ => continue,
            };
            module.entry(name.to_owned()).or_insert(stmt.end());
        }
        let mut unsure = Unsure::default();
        unsure.visit_body(body);
        module.retain(|name, _| !unsure.names.contains(name));
        Self {
            module,
            functions: Vec::new(),
        }
    }

    /// Goes into a function.
    pub fn enter(&mut self, parameters: &ast::Parameters, body: &[Stmt]) {
        let mut local = Local::default();
        local.names.extend(
            parameters
                .iter()
                .map(|parameter| parameter.name().to_string()),
        );
        local.visit_body(body);
        local.names.retain(|name| !local.global.contains(name));
        self.functions.push(local.names);
    }

    /// Leaves it.
    pub fn leave(&mut self) {
        self.functions.pop();
    }

    /// Whether a name read at a place is one that the file has bound.
    pub fn bind(&self, name: &str, at: TextSize) -> bool {
        self.functions.iter().any(|names| names.contains(name))
            || self.module.get(name).is_some_and(|end| *end <= at)
    }
}

/// Names that are deleted, or assigned from within functions: the top of the file may lack them.
#[derive(Default)]
struct Unsure {
    names: HashSet<String>,
}

impl<'a> Visitor<'a> for Unsure {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::Global(global) = stmt {
            self.names
                .extend(global.names.iter().map(ToString::to_string));
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Name(name) = expr
            && name.ctx.is_del()
        {
            self.names.insert(name.id.to_string());
        }
        visitor::walk_expr(self, expr);
    }
}

/// What a function's own statements bind, without the functions and classes in it.
#[derive(Default)]
struct Local {
    names: HashSet<String>,
    global: HashSet<String>,
}

impl<'a> Visitor<'a> for Local {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(function) => {
                self.names.insert(function.name.to_string());
            }
            Stmt::ClassDef(class) => {
                self.names.insert(class.name.to_string());
            }
            Stmt::Global(global) => {
                self.global
                    .extend(global.names.iter().map(ToString::to_string));
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx.is_store() => {
                self.names.insert(name.id.to_string());
            }
            // These have scopes of their own.
            Expr::Lambda(_)
            | Expr::ListComp(_)
            | Expr::SetComp(_)
            | Expr::DictComp(_)
            | Expr::Generator(_) => {}
            _ => visitor::walk_expr(self, expr),
        }
    }
}
