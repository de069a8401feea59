// What the TypeScript compiler says every call of a package calls: one JSON object per call.
//
// node benchmarks/typescript_calls.js FOLDER_OF_TYPESCRIPT FOLDER
//
// A call's definitions are the functions, methods and classes that declare the called name, through
// imports, and the one whose signature the compiler chose. A name that is no function of its own (a
// parameter, a property of a function type) is of type "other".

const fs = require("fs");
const path = require("path");

const ts = require(path.resolve(process.argv[2]));
const root = fs.realpathSync(process.argv[3]);
const SCRIPT = /\.(?:[mc]?[jt]s|[jt]sx)$/;

// Tests import their package by its name: what is built from these sources is no other library.
let own = root;
while (!fs.existsSync(path.join(own, "package.json")) && path.dirname(own) !== own) own = path.dirname(own);
const isBuilt = (file) => file.startsWith(own + path.sep) && !file.startsWith(root + path.sep) &&
  !file.slice(own.length).includes(`${path.sep}node_modules${path.sep}`);

function* sources(folder) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const whole = path.join(folder, entry.name);
    if (entry.isDirectory() && entry.name !== "node_modules") yield* sources(whole);
    else if (entry.isFile() && SCRIPT.test(entry.name)) yield whole;
  }
}

const files = [...sources(root)];
const program = ts.createProgram(files, {
  allowJs: true,
  checkJs: false,
  noEmit: true,
  strict: true,
  skipLibCheck: true,
  jsx: ts.JsxEmit.Preserve,
  target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  allowImportingTsExtensions: true,
  maxNodeModuleJsDepth: 0,
  types: [],
});
const checker = program.getTypeChecker();

function isFunctionLike(node) {
  return (
    ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node) || ts.isMethodSignature(node) ||
    ts.isFunctionExpression(node) || ts.isArrowFunction(node) ||
    ts.isGetAccessor(node) || ts.isSetAccessor(node)
  );
}

// The declaration that a reader would point at, and its name; null if it is no function or class.
function defining(node) {
  if (ts.isConstructorDeclaration(node) || ts.isConstructSignatureDeclaration(node)) node = node.parent;
  if (ts.isClassDeclaration(node)) return { type: "class", node, name: node.name };
  if (ts.isFunctionExpression(node) || ts.isArrowFunction(node)) {
    const holder = node.parent;
    if (ts.isVariableDeclaration(holder) || ts.isPropertyDeclaration(holder))
      return { type: "function", node: holder, name: holder.name };
    if (ts.isExportAssignment(holder)) return { type: "function", node: holder, name: null };
    if (ts.isBinaryExpression(holder) && ts.isPropertyAccessExpression(holder.left))
      return { type: "function", node: holder, name: holder.left.name };
    return null;
  }
  if (isFunctionLike(node)) {
    // A method of an object literal has no name that another file could ask for.
    if (ts.isObjectLiteralExpression(node.parent)) return null;
    return { type: "function", node, name: node.name };
  }
  if ((ts.isVariableDeclaration(node) || ts.isPropertyDeclaration(node)) && node.initializer) {
    const value = node.initializer;
    if (ts.isFunctionExpression(value) || ts.isArrowFunction(value))
      return { type: "function", node, name: node.name };
  }
  return null;
}

function described(node) {
  const source = node.getSourceFile();
  const relative = path.relative(root, source.fileName);
  const inside = !relative.startsWith("..") && !path.isAbsolute(relative);
  const found = defining(node);
  const at = found ? found.node : node;
  return {
    type: found ? found.type : "other",
    name: found ? (found.name ? found.name.getText(source).replace(/^#/, "") : "default") : "",
    path: inside ? relative.split(path.sep).join("/") : null,
    line: source.getLineAndCharacterOfPosition(at.getStart(source)).line + 1,
    end: source.getLineAndCharacterOfPosition(at.getEnd()).line + 1,
  };
}

function definitions(call, name) {
  let symbol = checker.getSymbolAtLocation(name);
  if (symbol && symbol.flags & ts.SymbolFlags.Alias) symbol = checker.getAliasedSymbol(symbol);
  const declared = symbol ? [...(symbol.declarations || [])] : [];
  const signature = checker.getResolvedSignature(call);
  if (signature && signature.declaration && defining(signature.declaration)) declared.push(signature.declaration);
  return declared.filter((one) => !ts.isImportSpecifier(one) && !isBuilt(one.getSourceFile().fileName));
}

for (const file of files) {
  const source = program.getSourceFile(file);
  if (!source) continue;
  const relative = path.relative(root, file).split(path.sep).join("/");
  const visit = (node) => {
    if (ts.isCallExpression(node) || ts.isNewExpression(node)) {
      let called = node.expression;
      while (ts.isParenthesizedExpression(called) || ts.isNonNullExpression(called) || ts.isAsExpression(called))
        called = called.expression;
      const name = ts.isIdentifier(called) ? called : ts.isPropertyAccessExpression(called) ? called.name : null;
      if (name) {
        const line = source.getLineAndCharacterOfPosition(name.getStart(source)).line + 1;
        let found;
        try {
          found = definitions(node, name).map(described);
        } catch (error) {
          found = null;
        }
        const place = { path: relative, line, name: name.text.replace(/^#/, "") };
        console.log(JSON.stringify(found ? { ...place, found } : { ...place, error: "compiler" }));
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
}
