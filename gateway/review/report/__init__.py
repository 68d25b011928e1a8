"""The report: one HTML file that needs nothing but a browser.

`gathering` reads the log into values, `worth_a_look` says what of them a reviewer should begin with, `charts` and
`sections` draw them, `page` puts all of it together. Everything that becomes HTML goes through `markup`.
"""
