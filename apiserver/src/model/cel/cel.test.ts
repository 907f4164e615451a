import { describe, expect, it } from 'vitest'
import {
  Budget,
  BudgetExceededError,
  CelCompileError,
  type CelType,
  type CelValue,
  compileCel,
} from './index.ts'
import { dyn, listOf } from './types.ts'

const item: CelType = {
  kind: 'object',
  fields: new Map<string, CelType>([
    ['name', { kind: 'string' }],
    ['port', { kind: 'int' }],
  ]),
}
const selfType: CelType = {
  kind: 'object',
  fields: new Map<string, CelType>([
    ['n', { kind: 'int' }],
    ['ratio', { kind: 'double' }],
    ['text', { kind: 'string' }],
    ['items', listOf(item)],
    ['numbers', listOf({ kind: 'int' })],
    ['labels', { kind: 'map', value: { kind: 'string' } }],
    ['any', dyn],
    ['missing', { kind: 'string' }],
    ['since', { kind: 'timestamp' }],
  ]),
}
const object = (fields: Record<string, CelValue>): CelValue => new Map(Object.entries(fields))
const self = object({
  n: 3n,
  ratio: 0.5,
  text: 'héllo😀',
  items: [object({ name: 'a', port: 80n }), object({ name: 'b', port: 443n })],
  numbers: [3n, 1n, 2n],
  labels: object({ app: 'web', 'a.b/c': 'x' }),
  any: object({ deep: [1n, 'x', null] }),
})
const variables = new Map([['self', selfType]])
const run = (text: string, budget = new Budget()) => compileCel(text, variables).evaluate({ self }, budget)
const failure = (text: string): string => {
  try {
    run(text)
  } catch (error) {
    return error instanceof CelCompileError ? `compile: ${error.message}` : `run: ${String(error)}`
  }
  return 'none'
}

describe('an expression that is true', () => {
  it.each([
    // Operators
    '1 + 2 * 3 == 7 && -7 / 2 == -3 && -7 % 2 == -1 && 7.0 / 2.0 == 3.5',
    '"a" + "b" == "ab" && [1] + [2] == [1, 2] && b"a" + b"b" == b"ab"',
    'self.n > 2 && self.n >= 3.0 && 2.5 < self.n && "a" < "b" && !(self.n < 3)',
    '"\\U0001F600" > "\\uFFFD" && false < true && b"a" < b"b"',
    'dyn(1) == dyn(1.0) && dyn(1) != dyn("1") && dyn([dyn(1), "a"]) == [dyn(1), "a"]',
    'self.any.deep[2] == null && self.any.deep[0] == 1',
    '{"a": 1} == {"a": 1} && {"a": 1} != {"b": 1} && self.items[0] == self.items[0]',
    'self.items[0] != self.items[1]',
    '2 in self.numbers && "app" in self.labels && !("x" in self.labels) && 1 in {"a": 1}.map(k, 1)',
    'self.n > 2 ? true : false',
    // Errors that the other operand absorbs
    'self.missing == "x" || true',
    '!(self.missing == "x" && false)',
    '[1, 0].exists(i, 4 / i == 4)',
    '![1, 0].all(i, 4 / i == 5)',
    // Fields and presence
    '!has(self.any.deep[2].x) && !has(self.any.deep[0].x) && self.any.deep[2].?x.orValue(7) == 7',
    'has(self.n) && !has(self.missing) && has(self.items[0].name) && has(self.labels.app) && !has(self.labels.x)',
    'self.labels["a.b/c"] == "x" && self.labels.app == "web"',
    'self.?missing.orValue("none") == "none" && self.?n.orValue(0) == 3',
    'self.?any.deep.hasValue() && !self.?any.other.hasValue() && self.?any.deep[?9].orValue(5) == 5',
    'optional.of(1).value() == 1 && !optional.none().hasValue() && optional.none().or(optional.of(2)).value() == 2',
    'self.?n.optMap(x, x + 1).orValue(0) == 4 && self.?missing.optMap(x, x.size()).orValue(7) == 7',
    // Macros
    'self.items.all(i, i.port > 0) && self.items.exists(i, i.name == "b") && self.items.exists_one(i, i.port == 80)',
    'self.items.map(i, i.port) == [80, 443] && self.items.filter(i, i.port > 100).size() == 1',
    'self.items.map(i, i.port > 100, i.name) == ["b"] && self.labels.all(k, self.labels[k].size() > 0)',
    'self.items.all(i, self.items.exists(j, j.port == i.port))',
    'self.items.all(i, self.items.exists_one(i, i.name == "a"))',
    // Strings
    'size(self.text) == 6 && self.text.size() == 6 && self.text.charAt(5) == "😀" && self.text.substring(1, 3) == "él"',
    'self.text.indexOf("😀") == 5 && self.text.indexOf("l", 3) == 3 && self.text.lastIndexOf("l") == 3 && "a".indexOf("x") == -1',
    'self.text.startsWith("h") && self.text.endsWith("😀") && self.text.contains("llo")',
    '"ABCÄ".lowerAscii() == "abcÄ" && "abcä".upperAscii() == "ABCä" && " a ".trim() == "a"',
    '"a,b,c".split(",") == ["a", "b", "c"] && "a,b,c".split(",", 2) == ["a", "b,c"] && "ab".split("") == ["a", "b"]',
    '"a,b".split(",", 0) == [] && ["a", "b"].join("-") == "a-b" && ["a", "b"].join() == "ab"',
    '"aXbXc".replace("X", "-") == "a-b-c" && "aXbXc".replace("X", "-", 1) == "a-bXc" && "ab".replace("", "_") == "_a_b_"',
    '"abc".matches("b") && !"abc".matches("^b") && "ABC".matches("(?i)abc") && "1a".matches("[[:digit:]]\\\\pL")',
    '"abc 123 4".find("[0-9]+") == "123" && "1 22 3".findAll("[0-9]+") == ["1", "22", "3"] && "1 2".findAll("[0-9]", 1) == ["1"]',
    '"%s is %d of %.2f, %x %X %b %%".format(["a", 3, 0.5, 255, 255, 5]) == "a is 3 of 0.50, ff FF 101 %"',
    '"%s %s".format([[1, 2], {"k": true}]) == "[1, 2] {k: true}"',
    // Lists
    'self.numbers.sum() == 6 && self.numbers.min() == 1 && self.numbers.max() == 3 && !self.numbers.isSorted()',
    '[1, 2, 2].isSorted() && ["a", "b"].isSorted() && self.numbers.indexOf(1) == 1 && [1, 1].lastIndexOf(1) == 1',
    '[1.5, 2.5].sum() == 4.0 && [duration("1s"), duration("1m")].sum() == duration("61s") && [].sum() == 0',
    // Types and conversions
    'int("42") == 42 && int(3.9) == 3 && double("2.5") == 2.5 && string(3) == "3" && string(true) == "true" && bool("true")',
    'type(self.any.deep[0]) == int && type(self.any.deep[1]) == string && type(self.any) == map && type(null) == null_type',
    'string(b"abc") == "abc" && bytes("abc") == b"abc" && string(1.5) == "1.5"',
    // Time
    'duration("1h30m") == duration("90m") && duration("-1.5s") < duration("0s") && string(duration("1h")) == "3600s"',
    'duration("90m").getHours() == 1 && duration("90m").getMinutes() == 90 && duration("1.5s").getMilliseconds() == 1500',
    'timestamp("2024-02-29T12:30:15.5Z") < timestamp("2024-02-29T12:30:15.500000001Z")',
    'timestamp("2024-02-29T23:30:00Z").getDayOfMonth() == 28 && timestamp("2024-02-29T23:30:00Z").getDate() == 29',
    'timestamp("2024-02-29T23:30:00Z").getDate("+01:00") == 1 && timestamp("2024-02-29T23:30:00Z").getHours("America/New_York") == 18',
    'timestamp("2024-03-01T00:00:00Z").getMonth() == 2 && timestamp("2024-03-01T00:00:00Z").getDayOfYear() == 60',
    'timestamp("2024-01-01T00:00:00Z") + duration("24h") - timestamp("2024-01-01T12:00:00Z") == duration("12h")',
    'string(timestamp("2024-01-01T00:00:00.25+02:00")) == "2023-12-31T22:00:00.25Z" && int(timestamp("1970-01-01T00:01:00Z")) == 60',
    // Two variables
    'self.numbers.all(i, v, v > i - 2) && self.labels.exists(k, v, k == "app" && v == "web")',
    'self.numbers.existsOne(i, v, i == 2) && !self.numbers.exists_one(i, v, v < 3) && ![1, 0].all(i, v, 4 / v == 5)',
    'self.numbers.transformList(i, v, i * v) == [0, 1, 4] && self.numbers.transformList(i, v, i > 0, v) == [1, 2]',
    'self.labels.transformMap(k, v, v + k).app == "webapp" && self.labels.transformMap(k, v, k == "app", 1) == {"app": 1}',
    'self.labels.transformMapEntry(k, v, {v: k}).web == "app" && ["a", "b"].transformMapEntry(i, v, i == 1, {v: i}) == {"b": 1}',
    'self.numbers.all(i, v, self.items.all(i, w, w.port > v))',
    // Sets
    'sets.contains([1, 2, 3], [3, 1]) && !sets.contains([1], [2]) && sets.contains([], [])',
    'sets.equivalent([1, 2, 2], [2, 1]) && !sets.equivalent([1], [1, 2]) && sets.intersects([1, 2], [2]) && !sets.intersects([1], [])',
    // Addresses
    'ip("127.0.0.1").family() == 4 && ip("::1").family() == 6 && isIP("10.0.0.1") && isIP("2001:DB8::1")',
    '!isIP("127.0.0.256") && !isIP("01.2.3.4") && !isIP(":::1") && !isIP("::ffff:1.2.3.4") && !isIP("fe80::1%eth0") && !isIP("")',
    'ip.isCanonical("2001:db8::abcd") && !ip.isCanonical("2001:DB8::ABCD") && !ip.isCanonical("2001:db8::0:0:0:abcd")',
    'ip.isCanonical("1::2:0:0:3") && ip.isCanonical("1:0:2:3:4:5:6:7") && ip.isCanonical("::") && string(ip("::1.2.3.4")) == "::102:304"',
    'ip("::").isUnspecified() && ip("0.0.0.0").isUnspecified() && !ip("::1").isUnspecified() && ip("127.9.0.1").isLoopback()',
    'ip("224.0.0.1").isLinkLocalMulticast() && !ip("224.0.1.1").isLinkLocalMulticast() && ip("ff12::1").isLinkLocalMulticast()',
    'ip("169.254.1.1").isLinkLocalUnicast() && ip("febf::1").isLinkLocalUnicast() && !ip("fd80::1").isLinkLocalUnicast()',
    'ip("10.0.0.1").isGlobalUnicast() && !ip("239.1.1.1").isGlobalUnicast() && !ip("255.255.255.255").isGlobalUnicast()',
    'ip("0::1") == ip("::1") && ip("::1") != ip("::2") && ip("::1") != null && cidr("::1/128").ip() == ip("::1")',
    'cidr("10.0.0.0/8").containsIP("10.1.2.3") && !cidr("10.0.0.0/8").containsIP(ip("11.0.0.1")) && !cidr("0.0.0.0/0").containsIP("::1")',
    'cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16") && !cidr("10.1.0.0/16").containsCIDR(cidr("10.0.0.0/8"))',
    'string(cidr("10.1.2.3/8").masked()) == "10.0.0.0/8" && cidr("::1/64").prefixLength() == 64 && cidr("10.0.0.1/8") != cidr("10.0.0.0/8")',
    'isCIDR("0.0.0.0/0") && !isCIDR("10.0.0.0/33") && !isCIDR("10.0.0.0/08") && !isCIDR("10.0.0.0") && !isCIDR("::1/129")',
    // Versions
    'semver("1.2.3").major() == 1 && semver("1.2.3").minor() == 2 && semver("1.2.3-rc.1").patch() == 3',
    'semver("1.0.0-a").isLessThan(semver("1.0.0")) && semver("1.0.0-2").isLessThan(semver("1.0.0-10")) && semver("1.0.0-2").isLessThan(semver("1.0.0-a"))',
    'semver("1.10.0").isGreaterThan(semver("1.9.0")) && semver("1.0.0+a").compareTo(semver("1.0.0+b")) == 0 && semver("1.0.0-a.1").compareTo(semver("1.0.0-a")) == 1',
    'semver("v1", true) == semver("1.0.0") && isSemver("01.1", true) && !isSemver("1.0-a", true) && !isSemver("v1.0.0") && !isSemver("1.0.0-01")',
    // Formats
    'format.dns1123Label().validate("A").hasValue() && !format.dns1123Label().validate("1a").hasValue() && format.dns1035Label().validate("1a").hasValue()',
    '!format.dns1123LabelPrefix().validate("a-").hasValue() && format.dns1123Label().validate("a-").hasValue() && format.dns1123SubdomainPrefix().validate("a..b-").hasValue()',
    '!format.qualifiedName().validate("a.b/c").hasValue() && format.labelValue().validate("-").hasValue() && format.dns1035LabelPrefix().validate("1a-").hasValue()',
    '!format.uri().validate("/a").hasValue() && format.uri().validate("a").value().size() == 1 && format.uuid().validate("x").hasValue()',
    '!format.byte().validate("YQ==").hasValue() && format.date().validate("2021-02-30").hasValue() && !format.datetime().validate("2021-01-01T00:00:00Z").hasValue()',
    'format.named("uri").value() == format.uri() && !format.named("x").hasValue() && format.uri().validate("a") != null',
    'matches(self.text, "^h") && !matches(self.text, "^é")',
    // Quantities and URLs
    'quantity("1.5Gi").isGreaterThan(quantity("1500M")) && quantity("500m").add(quantity("0.5")) == quantity("1") && quantity("2k").asInteger() == 2000',
    'isQuantity("10Mi") && !isQuantity("10Mo") && quantity("1e3").compareTo(quantity("1k")) == 0 && quantity("-1").sign() == -1',
    'quantity("1").sub(1).asApproximateFloat() == 0.0 && !quantity("500m").isInteger() && quantity("50k").isLessThan(quantity("1M"))',
    'url("https://user@example.com:443/a%20b?x=1&x=2").getHost() == "example.com:443" && url("https://example.com:443/").getPort() == "443"',
    'url("https://[::1]:80/").getHostname() == "::1" && url("/a?b=c").getEscapedPath() == "/a" && url("/a?b=c").getQuery() == {"b": ["c"]}',
    'isURL("https://example.com") && !isURL("example") && url("HTTPS://a/").getScheme() == "https"',
  ])('%s', text => {
    expect(run(text)).toBe(true)
  })
})

describe('an expression that does not compile', () => {
  it.each([
    ['self.n ==', 'Unexpected token: EOF (line 1, column 10)'],
    ['self.n\n  & 1', 'line 2, column 3'],
    ['self.nope == 1', 'undefined field "nope" (line 1, column 6)'],
    ['self.items.all(i,\n  i.prot > 1)', 'undefined field "prot" (line 2, column 5)'],
    ['has(self.nope)', 'undefined field "nope"'],
    ['has(self)', 'has needs one field selection'],
    ['other == 1', 'undeclared reference to "other" (line 1, column 1)'],
    ['self.items.all(i, true) && i.port == 1', 'undeclared reference to "i"'],
    ['nope(self)', 'undeclared reference to the function nope'],
    ['self.text.nope()', 'undeclared reference to the function nope'],
    ['self.text.constructor()', 'undeclared reference to the function constructor'],
    ['toString(1)', 'undeclared reference to the function toString'],
    ['sets.nope([1], [1])', 'undeclared reference to "sets"'],
    ['sets.contains([1], 1)', 'no overload of sets.contains'],
    ['isIP(self.n)', 'no overload of isIP for (int)'],
    ['matches(self.text, "(a")', 'invalid pattern'],
    ['format.nope().validate("a").hasValue()', 'undeclared reference to "format"'],
    ['self.n == null', 'no overload of == for (int, null)'],
    ['self.numbers.sort()', 'undeclared reference to the function sort'],
    ['self.labels.all(k, v, v == 1)', 'no overload of == for (string, int)'],
    ['self.numbers.all(i, v, v, true)', 'all needs a variable and 1 more'],
    ['self.numbers.existsOne(v, v == 1)', 'existsOne needs two variables and 1 more'],
    ['self.numbers.transformList(i, v)', 'transformList needs two variables and 1 or 2 more'],
    ['self.numbers.transformMapEntry(i, v, v) == {}', 'must be a map, is of type int'],
    ['self.n.all(i, v, true)', 'the type int has no items'],
    ['self.items.all(1, true)', 'invalid predicate iteration variable'],
    ['self.n.all(i, true)', 'the type int has no items'],
    ['self.items.all(i, i.port)', 'must be a bool, is of type int'],
    ['self.n == "3"', 'no overload of == for (int, string)'],
    ['1 == 1.0', 'no overload of == for (int, double)'],
    ['self.n + 1.0 > 2.0', 'no overload of + for (int, double)'],
    ['self.n.startsWith("a")', 'no overload of startsWith for (int, string)'],
    ['self.text.startsWith()', 'no overload of startsWith'],
    ['self.items in self.n', 'no overload of in'],
    ['self.n ? 1 : 2', 'must be a bool, is of type int'],
    ['true ? 1 : "a"', 'the branches have the types int and string'],
    ['self.n && true', 'must be a bool'],
    ['self.items["a"]', 'no index of type string'],
    ['self.text.matches("(a")', 'invalid pattern'],
    ['self.text.matches("a(?=b)")', 'invalid pattern'],
    ['1u == 1u', 'unsigned integers are not supported'],
    ['9223372036854775808 > 0', 'more than 64 bits'],
    ['{1: 2}.size() == 1', 'the keys of a map must be strings'],
    ['1 in [1, "a"]', 'must be of the type int as the first one, is of type string'],
    ['{"a": [1], "b": ["a"]}.size() == 2', 'must be of the type list(int) as the first one'],
    ['"a" in self.numbers', 'no overload of in for (string, list(int))'],
    ['1 in {"a": 1}', 'no overload of in for (int, map(string, int))'],
    ['self.numbers + ["a"] == []', 'no overload of + for (list(int), list(string))'],
    ['sets.contains(self.numbers, ["a"])', 'no overload of sets.contains'],
    ['self.numbers.indexOf("a") == 0', 'no overload of indexOf'],
    ['optional.of(1).orValue("a") == 1', 'no overload of orValue for (optional(int), string)'],
    [`"${'a'.repeat(6000)}" == ""`, 'at most 5120 characters'],
  ])('%s', (text, message) => {
    expect(failure(text)).toMatch(/^compile: /)
    expect(failure(text)).toContain(message)
  })
})

describe('an expression without a value', () => {
  it.each([
    ['self.missing == ""', 'no such key: missing'],
    ['self.numbers[7] == 1', 'index out of bounds: 7'],
    ['self.labels["x"] == ""', 'no such key: x'],
    ['1 / (self.n - 3) == 1', 'division by zero'],
    ['9223372036854775807 + self.n > 0', 'integer overflow'],
    ['int(1e30) == 1', 'integer overflow'],
    ['int("") == 0', 'cannot convert to int'],
    ['int("0x10") == 16', 'cannot convert to int'],
    ['double(" 1") == 1.0', 'cannot convert to double'],
    ['bool("yes")', 'cannot convert to bool'],
    ['timestamp("2023-02-29T00:00:00Z") == self.since', 'not an RFC 3339 time'],
    ['duration("1 day") == duration("24h")', 'not a duration'],
    ['quantity("1 Gi").isInteger()', 'not a quantity'],
    ['url("a b").getHost() == ""', 'not an absolute URI'],
    ['self.any.deep == 1 || self.any.deep.x == 1', 'no such overload'],
    ['self.any.deep[0] < "a"', 'no such overload of <'],
    ['self.any.deep.min() == 1', 'no such overload'],
    ['[].max() == 1', 'an empty list'],
    ['"a".substring(2) == ""', 'index out of range'],
    ['"%d".format([]) == ""', 'more verbs than values'],
    ['"%d".format(["a"]) == ""', 'has no "%d"'],
    ['"x".format([1]) == ""', 'fewer verbs'],
    ['"a".matches(self.text + "(")', 'invalid pattern'],
    ['self.missing == "x" || false', 'no such key'],
    ['self.any.deep[2].x == 1', 'no such key: x'],
    ['[1, 0].all(i, 4 / i == 4)', 'division by zero'],
    ['[0, 1].exists_one(i, 4 / i == 4)', 'division by zero'],
    ['optional.none().value() == 1', 'has no value'],
    ['ip("1.2.3").family() == 4', '"1.2.3" is not an IP address'],
    ['cidr("1.2.3.4").prefixLength() == 4', 'is not a network'],
    ['semver("1.0").major() == 1', 'is not a semantic version'],
    ['[1, 2].transformMapEntry(i, v, {"a": v}) == {}', 'the key a is there twice'],
  ])('%s', (text, message) => {
    expect(failure(text)).toContain('run: CelEvaluationError')
    expect(failure(text)).toContain(message)
  })
})

describe('the steps of an evaluation', () => {
  const costOf = (text: string, value: CelValue) => {
    const program = compileCel(text, new Map([['self', dyn]]))
    for (let steps = 1; ; steps *= 2) {
      try {
        program.evaluate({ self: value }, new Budget(steps))
        return steps
      } catch (error) {
        if (!(error instanceof BudgetExceededError)) throw error
      }
    }
  }
  const numbers = (count: number) => Array.from({ length: count }, (_, n) => BigInt(n))
  const manyTimes = (size: number): CelValue =>
    new Map<CelValue, CelValue>([
      ['l', numbers(50)],
      ['s', 'a'.repeat(size * 64)],
    ])

  it.each<[string, (size: number) => CelValue]>([
    ['self.all(x, x >= 0)', numbers],
    ['self.map(x, x)', numbers],
    ['self.filter(x, true)', numbers],
    ['self.exists(x, x.y == 1) || true', numbers],
    ['-1 in self', numbers],
    ['self.all(i, x, x >= i)', numbers],
    ['self.transformMap(i, x, x).size() < 0', numbers],
    ['sets.contains(self, [-1])', numbers],
    ['self == self.map(x, x)', numbers],
    ['self.indexOf(-1)', numbers],
    ['self.map(x, "a").join("abcdefghijklmnopqrstuvwxyz")', numbers],
    ['self + "x"', size => 'a'.repeat(size * 64)],
    ['self.contains("x")', size => 'a'.repeat(size * 64)],
    ['self.matches("(a|aa)+$")', size => 'a'.repeat(size)],
    ['self == self + ""', size => 'a'.repeat(size * 64)],
    ['self.replace("a", "bbbbbbbbbbbbbbbb")', size => 'a'.repeat(size * 4)],
    ['self.split("")', size => 'a'.repeat(size * 8)],
    ['self.l.map(x, self.s).isSorted()', manyTimes],
    ['self.l.map(x, self.s).max() == "b"', manyTimes],
    ['"%s".format([self.l.map(x, self.s)]) == "b"', manyTimes],
  ])('of %s grow with the size of its values', (text, make) => {
    expect(costOf(text, make(4000))).toBeGreaterThan(costOf(text, make(100)))
  })

  it('end an evaluation at the bound, whatever absorbs errors', () => {
    const nested = 'self.all(a, self.all(b, self.all(c, self.exists(d, d < 0) || true)))'
    const program = compileCel(nested, new Map([['self', dyn]]))
    expect(() => program.evaluate({ self: numbers(1000) }, new Budget(10_000))).toThrow(BudgetExceededError)
  })
})
