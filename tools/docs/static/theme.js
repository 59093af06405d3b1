// Light or dark as the browser is: the theme's own switch is a module, which a page in a folder may not load.
const dark = matchMedia("(prefers-color-scheme: dark)")
const show = () => { document.body.dataset.theme = dark.matches ? "dark" : "light" }
dark.addEventListener("change", show)
show()
