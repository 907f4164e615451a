import { requestLimits } from '../../apiserver/src/http/api-request.ts'
import { objectLimits } from '../../apiserver/src/model/object-limits.ts'
import { textsOf } from './hostile-body-texts.ts'
import type { Base, Change, Part } from './hostile-requests.ts'
import { shapeNames } from './hostile-text.ts'
import { fieldsIn, hostileValue, withValue } from './hostile-values.ts'
import { fieldsOf } from './json.ts'
import { exampleOf, type Operation } from './operations.ts'

/** Of all fields together. A character may take two bytes. */
const objectRoom = { characters: requestLimits.bodyBytes / 2.2, parts: objectLimits.parts * 0.9 }
/** Of a single field. It has fewer characters because there are many fields. */
const fieldRoom = { ...objectRoom, characters: objectRoom.characters / 4 }

/** Returns what the bodies of an operation can have that is hostile: the text, all fields, and each field. */
export function* bodyParts({ method, path, query, bodies }: Operation, base: Base): Generator<Part> {
  // All kinds share the code of a method.
  const code = query.size === 0 ? path : method
  for (const [type, description] of bodies) {
    const { schema } = description
    const example = exampleOf(description)
    const sent = (body: string | Buffer): Change => ({
      body,
      headers: { ...base.headers, 'content-type': type },
    })
    const texts = textsOf(type, example)
    yield {
      ...{ name: `the text of ${type}`, key: `${code} ${type}`, shapes: Object.keys(texts) },
      shaped: shape => sent(texts[shape]?.() ?? ''),
    }
    // Apply takes JSON, too. The operations of a JSON patch are among its texts.
    if (!/json$|apply-patch/.test(type) || type === 'application/json-patch+json') continue
    yield {
      ...{ name: `all fields in ${type}`, key: `${code} ${type} fields`, shapes: shapeNames },
      // Each kind is created once.
      ...(method !== 'POST' && { times: 8 }),
      shaped(shape) {
        // An object of another kind or name is refused before it is read.
        const { apiVersion, kind, metadata } = example
        const object = fieldsOf(hostileValue(schema, shape, objectRoom))
        return sent(JSON.stringify({ ...object, apiVersion, kind, metadata }))
      },
    }
    // The other types and methods have the same fields.
    if (type !== 'application/json' || method === 'PUT') continue
    for (const { place, field } of fieldsIn(schema)) {
      const { format, pattern } = field
      const isChecked = format !== undefined || pattern !== undefined
      yield {
        name: `the field ${place.join('.')}`,
        key: isChecked ? `${format} ${pattern}` : `${place} ${field.type}`,
        ...{ shapes: shapeNames, times: isChecked ? shapeNames.length : 1 },
        shaped: shape =>
          sent(JSON.stringify(withValue(example, place, hostileValue(field, shape, fieldRoom)))),
      }
    }
  }
}
