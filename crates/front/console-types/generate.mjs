// Writes `api.d.ts` from `docs/openapi.json`: one type per schema, and what each path below `/v1/` answers.
//
//     node generate.mjs           writes it
//     node generate.mjs --check   fails when it would change

import { readFileSync, writeFileSync } from 'node:fs';

const here = new URL('.', import.meta.url);
const target = new URL('api.d.ts', here);
const document = JSON.parse(readFileSync(new URL('../../../docs/openapi.json', here), 'utf8'));

const HEAD = '// Generated from docs/openapi.json by generate.mjs. Do not edit.\n\ndeclare namespace Api {';

const written = HEAD + Object.entries(document.components.schemas).map(declaration).join('') + answers('Got', 'get') + answers('Posted', 'post') + '}\n';
if (process.argv.includes('--check')) {
  if (readFileSync(target, 'utf8') !== written) {
    console.error('api.d.ts is older than docs/openapi.json: run `node crates/front/console-types/generate.mjs`');
    process.exit(1);
  }
} else {
  writeFileSync(target, written);
}

/** A conditional type by the path. A fixed part of a path is tried before a name in its place. */
function answers(name, method) {
  const found = Object.entries(document.paths).flatMap(([path, methods]) => {
    const success = Object.entries(methods[method]?.responses ?? {}).find(([status]) => status.startsWith('2'))?.[1];
    const schema = success?.content?.['application/json']?.schema;
    return path.startsWith('/v1/') && schema ? [[path.slice(4).replace(/\{\w+\}/g, '${string}'), type(schema, '')]] : [];
  });
  found.sort(([a], [b]) => b.split('/').length - a.split('/').length || a.split('$').length - b.split('$').length);
  return `\n  type ${name}<P extends string> =${found.map(([path, answer]) => `\n    P extends \`${path}\` ? ${answer} :`).join('')}\n    never;\n`;
}

function declaration([name, schema]) {
  return `\n${comment(schema, '  ')}  type ${name} = ${type(schema, '  ')};\n`;
}

function type(schema, indent) {
  if (schema === true || schema === undefined) return 'unknown';
  if (schema.$ref) return schema.$ref.split('/').pop();
  if ('const' in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map((one) => type(one, indent)).join(' | ');
  if (Array.isArray(schema.type)) {
    return schema.type.map((one) => type({ ...schema, type: one }, indent)).join(' | ');
  }
  switch (schema.type) {
    case 'array': return `Array<${type(schema.items, indent)}>`;
    case 'object': return object(schema, indent);
    case 'integer':
    case 'number': return 'number';
    case 'string':
    case 'boolean':
    case 'null': return schema.type;
    default: return 'unknown';
  }
}

function object(schema, indent) {
  if (!schema.properties) return `Record<string, ${type(schema.additionalProperties, indent)}>`;
  const inner = `${indent}  `;
  const required = new Set(schema.required);
  const fields = Object.entries(schema.properties).map(([name, field]) => {
    const mark = required.has(name) ? '' : '?';
    return `${comment(field, inner)}${inner}${name}${mark}: ${type(field, inner)};\n`;
  });
  return `{\n${fields.join('')}${indent}}`;
}

function comment(schema, indent) {
  const text = schema?.description?.replaceAll('*/', '* /').replaceAll('\n', ' ');
  return text ? `${indent}/** ${text} */\n` : '';
}
