// Elements. Text only ever becomes a text node, never markup: what a model is
// called cannot run.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? '' : String(value));
  }
  append(element, ...children);
  return element;
}

export function append(parent: Node, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(
      typeof child === 'string' ? document.createTextNode(child) : child);
  }
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.textContent = '';
  append(parent, ...children);
}

export function section(
  id: string, title: string, hint: string, ...children: Child[]
): HTMLElement {
  return h('section', { id, 'aria-labelledby': `${id}-title` },
    h('header', { class: 'section-head' },
      h('h2', { id: `${id}-title` }, title),
      hint !== '' && h('p', { class: 'hint' }, hint)),
    ...children);
}
