(section (atx_heading heading_content: (inline) @name)) @definition.section
