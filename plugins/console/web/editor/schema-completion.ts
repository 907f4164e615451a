import type { Completion, CompletionContext, CompletionResult } from '@codemirror/autocomplete'
import { type Fields, fieldsOf, listOf, textOf, textsOf } from '../api/json.ts'
import { type KindSchema, resolved, schemaAt } from '../api/schema.ts'
import { pathAtLine } from './yaml-path.ts'

/** Completes the names of fields and the values that the schema of the kind allows. */
export function schemaCompletion({ schema, document }: KindSchema) {
  return (context: CompletionContext): CompletionResult | null => {
    const { state, pos } = context
    const line = state.doc.lineAt(pos)
    const before = line.text.slice(0, pos - line.from)
    const value = /^\s*(?:- )*([\w.$/-]+):\s+([^\s]*)$/.exec(before)
    const lines = state.doc.toString().split('\n')
    const path = pathAtLine(lines, line.number - 1)
    if (value !== null) {
      const [, , typed = ''] = value
      const options = valuesOf(schemaAt(schema, document, path))
      return options.length === 0 ? null : { from: pos - typed.length, options }
    }
    const name = /^(\s*(?:- )*)([\w.$/-]*)$/.exec(before)
    if (name === null || (!context.explicit && name[2] === '')) return null
    const parent = schemaAt(schema, document, path.slice(0, -1))
    const options = namesOf(parent, document)
    return options.length === 0
      ? null
      : { from: pos - (name[2]?.length ?? 0), options, validFor: /^[\w.$/-]*$/ }
  }
}

function namesOf(schema: Fields, document: Fields): Completion[] {
  const required = new Set(textsOf(schema.required))
  return Object.entries(fieldsOf(schema.properties)).map(([label, property]) => {
    const { description, type } = resolved(property, document)
    return {
      label,
      apply: type === 'object' || type === 'array' ? `${label}:` : `${label}: `,
      detail: `${textOf(type)}${required.has(label) ? ', required' : ''}`,
      info: textOf(description) || undefined,
      boost: required.has(label) ? 1 : 0,
      type: 'property',
    }
  })
}

function valuesOf(schema: Fields): Completion[] {
  const values = schema.type === 'boolean' ? [true, false] : listOf(schema.enum)
  return values.map(value => ({ label: String(value), type: 'enum' }))
}
