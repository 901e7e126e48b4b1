// Bundles the page of `onnx-memopt --html` to one file and writes it as a C++
// source that lib/report embeds:
//
//   node build.mjs page.cc
//
// The page is cut where the report's JSON belongs. Its policy lets only this
// script and this style sheet in, by their hashes, and nothing from a network.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const folder = dirname(fileURLToPath(import.meta.url));
const [target] = process.argv.slice(2);
if (!target) throw new Error('usage: node build.mjs OUTPUT.cc');

async function bundle(entry) {
  const result = await build({
    entryPoints: [join(folder, 'src', entry)],
    bundle: true,
    minify: true,
    write: false,
    format: 'iife',
    target: ['es2021', 'chrome100', 'firefox100', 'safari15.4'],
    charset: 'ascii',
    legalComments: 'none',
    logLevel: 'warning',
  });
  return result.outputFiles[0].text.trim();
}

const hash = (text) =>
  `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`;

// Text for the inside of an element must not end it.
function inside(element, text) {
  if (text.toLowerCase().includes(`</${element}`)) {
    throw new Error(`the bundle has </${element} in it`);
  }
  return text;
}

const script = inside('script', await bundle('main.ts'));
const style = inside('style', await bundle('style.css'));
const licence = readFileSync(
  join(folder, 'node_modules', 'uplot', 'LICENSE'), 'utf8').trim();
const page = readFileSync(join(folder, 'src', 'page.html'), 'utf8')
  .replace('@POLICY@', () => [
    "default-src 'none'", `script-src ${hash(script)}`,
    `style-src ${hash(style)}`, 'img-src data:', "base-uri 'none'",
    "form-action 'none'",
  ].join('; '))
  .replace('@LICENCE@', () => licence)
  .replace('@STYLE@', () => style)
  .replace('@SCRIPT@', () => script);
const parts = page.split('@REPORT@');
if (parts.length !== 2) throw new Error('expected @REPORT@ once');

// A raw string may be no longer than compilers are bound to take.
function literal(text) {
  const mark = 'page';
  if (text.includes(`)${mark}"`)) throw new Error('the mark is in the text');
  const pieces = text.match(/[^]{1,16000}/g) ?? [''];
  return pieces.map((piece) => `    R"${mark}(${piece})${mark}"`).join('\n');
}

writeFileSync(target, `// Made by tools/report/build.mjs; do not edit.
#include "report/page.h"

namespace onnx_memopt {
namespace {

constexpr char kHead[] =
${literal(parts[0])};
constexpr char kTail[] =
${literal(parts[1])};

}  // namespace

absl::string_view PageHead() { return {kHead, sizeof(kHead) - 1}; }
absl::string_view PageTail() { return {kTail, sizeof(kTail) - 1}; }

}  // namespace onnx_memopt
`);
