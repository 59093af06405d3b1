import {readFileSync} from 'node:fs';

// Our tables quote a field only where it holds a comma or a quote.
export function read_csv(path) {
  const cells = (line) =>
    [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)]
      .slice(0, line.split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/).length)
      .map((match) => match[1].replace(/^"(.*)"$/s, '$1').replace(/""/g, '"'));
  const [head, ...lines] = readFileSync(path, 'utf8').trimEnd().split('\n').map(cells);
  return {head, rows: lines.map((line) => Object.fromEntries(head.map((name, i) => [name, line[i]])))};
}
