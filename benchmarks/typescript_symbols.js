// The functions, classes and types of a folder's scripts as the TypeScript compiler reads them.
//
// node benchmarks/typescript_symbols.js FOLDER_OF_TYPESCRIPT FOLDER
//
// One JSON object per symbol: its file, its qualified name and its syntax tree without its own name.
// A tree has no comments, no formatting and no brackets around an expression.

const fs = require("fs");
const path = require("path");

const ts = require(path.resolve(process.argv[2]));
const root = fs.realpathSync(process.argv[3]);
const SCRIPT = /(?<!\.d)\.(?:[mc]?[jt]s|[jt]sx)$/;

function* sources(folder) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const whole = path.join(folder, entry.name);
    if (entry.isDirectory() && entry.name !== "node_modules" && entry.name !== ".git") yield* sources(whole);
    else if (entry.isFile() && SCRIPT.test(entry.name)) yield whole;
  }
}

function dump(node, without) {
  if (node === without) return "";
  if (ts.isParenthesizedExpression(node) || ts.isParenthesizedTypeNode(node)) return dump(node.expression || node.type, without);
  if (node.kind === ts.SyntaxKind.EmptyStatement || node.kind === ts.SyntaxKind.SemicolonClassElement) return "";
  const parts = [ts.SyntaxKind[node.kind]];
  if (ts.isIdentifier(node) || ts.isPrivateIdentifier(node) || ts.isLiteralExpression(node) || ts.isTemplateMiddleOrTemplateTail(node) || ts.isTemplateHead(node))
    parts.push(JSON.stringify(node.text));
  if (ts.isPrefixUnaryExpression(node) || ts.isPostfixUnaryExpression(node) || ts.isTypeOperatorNode(node)) parts.push(node.operator);
  if (ts.isVariableDeclarationList(node)) parts.push(node.flags & ts.NodeFlags.BlockScoped);
  ts.forEachChild(node, (child) => {
    parts.push(dump(child, without));
  });
  return `(${parts.join(" ")})`;
}

const isFunction = (node) => node && (ts.isArrowFunction(node) || ts.isFunctionExpression(node));

// What a symbol is called, and what is compared; null if the node is none.
function symbolOf(node) {
  if (ts.isFunctionDeclaration(node) || ts.isClassDeclaration(node) || ts.isInterfaceDeclaration(node) ||
      ts.isTypeAliasDeclaration(node) || ts.isEnumDeclaration(node) || ts.isModuleDeclaration(node))
    return node.name ? { name: node.name, tree: node } : null;
  if (ts.isMethodDeclaration(node) && ts.isClassLike(node.parent)) return { name: node.name, tree: node };
  if (ts.isMethodSignature(node) && ts.isInterfaceDeclaration(node.parent)) return { name: node.name, tree: node };
  if (ts.isPropertyDeclaration(node) && isFunction(node.initializer)) return { name: node.name, tree: node };
  if (ts.isVariableDeclaration(node) && isFunction(node.initializer) && ts.isIdentifier(node.name)) {
    const list = node.parent;
    const statement = list.parent;
    const alone = ts.isVariableStatement(statement) && list.declarations.length === 1;
    return { name: node.name, tree: alone ? statement : node };
  }
  return null;
}

for (const file of sources(root)) {
  const text = fs.readFileSync(file, "utf8");
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const relative = path.relative(root, file).split(path.sep).join("/");
  const visit = (node, above) => {
    const symbol = symbolOf(node);
    let inner = above;
    if (symbol) {
      const own = symbol.name.getText(source).replace(/^#/, "");
      inner = above ? `${above}.${own}` : own;
      console.log(JSON.stringify({ path: relative, name: inner, tree: dump(symbol.tree, symbol.name) }));
    }
    ts.forEachChild(node, (child) => visit(child, inner));
  };
  visit(source, "");
}
