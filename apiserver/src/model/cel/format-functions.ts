import {
  checkDnsLabel,
  checkLabelKey,
  checkLabelValue,
  checkSubdomain,
} from '@setpoint/controller-runtime/api'
import { kubernetesFormat } from '../kubernetes-formats.ts'
import { NamedFormat, type TextCheck } from './named-format.ts'
import { type OverloadTable, overload } from './overloads.ts'
import { type CelType, listOf, string } from './types.ts'
import { Optional } from './values.ts'

function checkLabel1035(text: string): string | undefined {
  if (/^\d/.test(text)) return 'must start with a letter'
  return checkDnsLabel(text)
}

/** A prefix may end with a dash, because more follows. */
function prefixOf(check: TextCheck): TextCheck {
  return text => check(text.length > 1 && text.endsWith('-') ? `${text.slice(0, -2)}a` : text)
}

function kubernetes(name: string, problem: string): TextCheck {
  return text => (kubernetesFormat(name)?.(text) === true ? undefined : problem)
}

const checks: Readonly<Record<string, TextCheck>> = {
  dns1123Label: checkDnsLabel,
  dns1123Subdomain: checkSubdomain,
  dns1035Label: checkLabel1035,
  qualifiedName: checkLabelKey,
  dns1123LabelPrefix: prefixOf(checkDnsLabel),
  dns1123SubdomainPrefix: prefixOf(checkSubdomain),
  dns1035LabelPrefix: prefixOf(checkLabel1035),
  labelValue: checkLabelValue,
  uri: kubernetes('uri', 'must be a URI or an absolute path'),
  uuid: kubernetes('uuid', 'must be a UUID'),
  byte: kubernetes('byte', 'must be base64'),
  date: kubernetes('date', 'must be a date such as 2006-01-02'),
  datetime: kubernetes('datetime', 'must be a time such as 2006-01-02T15:04:05Z'),
}

const formats = new Map(Object.entries(checks).map(([name, check]) => [name, new NamedFormat(name, check)]))
const format: CelType = { kind: 'format' }

/** The functions for named formats, as in Kubernetes. Their problems are in Setpoint's words. */
export const formatFunctions: OverloadTable = {
  'format.named': [
    overload(['string'], { kind: 'optional', value: format }, ([name]) => new Optional(formats.get(name))),
  ],
  ...Object.fromEntries(
    [...formats].map(([name, each]) => [`format.${name}`, [overload([], format, () => each)]]),
  ),
}

export const formatMethods: OverloadTable = {
  validate: [
    overload(['format', 'string'], { kind: 'optional', value: listOf(string) }, ([{ check }, text]) => {
      const problem = check(text)
      return new Optional(problem === undefined ? undefined : [problem])
    }),
  ],
}
